#include "launcher/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/file_error.h"

namespace millrace {

StatusOr<std::unique_ptr<ProcessWatch>> ProcessWatch::Create(std::function<void()> on_event) {
  Descriptor wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.is_open()) {
    return FileError(std::string("processes cannot be watched: ") + std::strerror(errno), errno);
  }
  return std::unique_ptr<ProcessWatch>(new ProcessWatch(std::move(on_event), std::move(wakeup)));
}

ProcessWatch::ProcessWatch(std::function<void()> on_event, Descriptor wakeup)
    : on_event_(std::move(on_event)), wakeup_(std::move(wakeup)), thread_([this] { Run(); }) {}

ProcessWatch::~ProcessWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  Wake();
  thread_.join();
}

void ProcessWatch::Add(const std::string& key, Descriptor descriptor) {
  {
    const std::lock_guard lock(mutex_);
    watched_.try_emplace(key, std::move(descriptor));
  }
  Wake();
}

bool ProcessWatch::IsWatched(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return watched_.contains(key);
}

std::vector<ProcessWatch::ChildEnd> ProcessWatch::TakeChildEnds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(child_ends_, {});
}

void ProcessWatch::Run() {
  for (;;) {
    const std::vector<std::string> ready = WaitForReady();
    {
      const std::lock_guard lock(mutex_);
      if (is_ending_) return;
      for (const std::string& key : ready) {
        siginfo_t end{};
        const auto pidfd = static_cast<id_t>(watched_[key].number());
        // (Fails for what is no child: another master's, or a pipe.)
        if (waitid(P_PIDFD, pidfd, &end, WEXITED | WNOHANG) == 0 && end.si_pid != 0) {
          child_ends_.push_back({key, end.si_code, end.si_status});
        }
        watched_.erase(key);
      }
    }
    if (!ready.empty()) on_event_();
  }
}

std::vector<std::string> ProcessWatch::WaitForReady() {
  std::vector<std::string> keys;
  std::vector<pollfd> files{{wakeup_.number(), POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, descriptor] : watched_) {
      keys.push_back(key);
      files.push_back({descriptor.number(), POLLIN, 0});
    }
  }
  while (poll(files.data(), files.size(), -1) < 0 && errno == EINTR) {
  }
  uint64_t count = 0;
  (void)!read(wakeup_.number(), &count, sizeof(count));
  std::vector<std::string> ready;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (files[i + 1].revents != 0) ready.push_back(keys[i]);
  }
  return ready;
}

void ProcessWatch::Wake() const {
  const uint64_t one = 1;
  (void)!write(wakeup_.number(), &one, sizeof(one));
}

}  // namespace millrace
