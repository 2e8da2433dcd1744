#include "rpc/watchdog.h"

#include <utility>

namespace millrace::grpc_internal {
namespace {

constexpr std::chrono::milliseconds kLookAtStop(50);

}  // namespace

Watchdog::Watchdog(const std::atomic<bool>& stop, std::function<void()> bark)
    : stop_(stop), bark_(std::move(bark)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Set(std::chrono::steady_clock::time_point deadline) {
  const std::lock_guard<std::mutex> lock(mutex_);
  deadline_ = deadline;
}

void Watchdog::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  deadline_.reset();
}

void Watchdog::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    const bool late = deadline_ && std::chrono::steady_clock::now() >= *deadline_;
    if (late || stop_) {
      barked_ = true;
      lock.unlock();
      bark_();
      return;
    }
    changed_.wait_for(lock, kLookAtStop);
  }
}

}  // namespace millrace::grpc_internal
