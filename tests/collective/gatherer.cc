#include "tests/collective/gatherer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// A text, behind its size. False: the other end is closed.
bool Write(int fd, const std::string& text) {
  const uint64_t size = text.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += text;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

Status Gone() { return absl::AbortedError("the gatherer has ended"); }

bool ReadBytes(int fd, char* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = read(fd, to + done, size - done);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

std::optional<std::string> Read(int fd) {
  uint64_t size = 0;
  if (!ReadBytes(fd, reinterpret_cast<char*>(&size), sizeof(size))) return std::nullopt;
  std::string text(size, '\0');
  if (!ReadBytes(fd, text.data(), size)) return std::nullopt;
  return text;
}

}  // namespace

int Gatherer::Add(const std::string& instance) {
  std::array<int, 2> ends = {};
  MILLRACE_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  members_.push_back({ends[0], instance, std::nullopt});
  return ends[1];
}

void Gatherer::Serve() {
  while (!members_.empty()) {
    std::vector<pollfd> polled;
    for (const Member& member : members_) polled.push_back({member.fd, POLLIN, 0});
    MILLRACE_CHECK(poll(polled.data(), polled.size(), -1) > 0);
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) Hear(members_[i]);
    }
    std::erase_if(members_, [](const Member& member) { return member.fd < 0; });
    ReleaseAll();
  }
}

void Gatherer::Hear(Member& member) {
  const std::optional<std::string> kind = Read(member.fd);
  const std::optional<std::string> text = kind ? Read(member.fd) : std::nullopt;
  if (!text) {
    close(std::exchange(member.fd, -1));
  } else if (*kind == "last words") {
    last_words_[member.instance] = *text;
  } else {
    member.value = *text;
  }
}

void Gatherer::ReleaseAll() {
  if (!std::ranges::all_of(members_, [](const Member& member) { return member.value.has_value(); }))
    return;
  ++release_;
  for (Member& to : members_) {
    (void)Write(to.fd, std::to_string(release_));
    (void)Write(to.fd, std::to_string(members_.size()));
    for (const Member& each : members_) {
      (void)Write(to.fd, each.instance);
      (void)Write(to.fd, *each.value);
    }
  }
  for (Member& member : members_) member.value.reset();
}

std::optional<std::string> Gatherer::LastWords(const std::string& instance) const {
  const auto words = last_words_.find(instance);
  if (words == last_words_.end()) return std::nullopt;
  return words->second;
}

StatusOr<Gathered> GatherBy(int fd, const std::string& value) {
  if (!Write(fd, "value") || !Write(fd, value)) return Gone();
  const std::optional<std::string> release = Read(fd);
  const std::optional<std::string> count = release ? Read(fd) : std::nullopt;
  if (!count) return Gone();
  Gathered gathered;
  gathered.release = std::stoull(*release);
  for (uint64_t i = std::stoull(*count); i > 0; --i) {
    std::optional<std::string> instance = Read(fd);
    std::optional<std::string> given = instance ? Read(fd) : std::nullopt;
    if (!given) return Gone();
    gathered.members.push_back({*std::move(instance), *std::move(given)});
  }
  return gathered;
}

void SayLastWords(int fd, const std::string& words) {
  MILLRACE_CHECK(Write(fd, "last words") && Write(fd, words));
}

void RunMembers(size_t count, const std::function<void(size_t, const Gather&)>& member) {
  Gatherer gatherer;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    const int fd = gatherer.Add("m" + std::to_string(i));
    threads.emplace_back([&member, i, fd] {
      member(i, [fd](const std::string& value) { return GatherBy(fd, value); });
      close(fd);
    });
  }
  gatherer.Serve();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace millrace
