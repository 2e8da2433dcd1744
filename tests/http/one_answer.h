// HTTP servers of a test's own, on sockets of this machine.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>

#include "tests/base/listener.h"

namespace millrace {

// Gives one answer to one request.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : answer_(std::move(answer)), thread_([this] { Answer(); }) {}
  ~OneAnswer() { Join(); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  std::string url() const { return listener_.url(); }
  // What was asked.
  const std::string& request() {
    Join();
    return request_;
  }

 private:
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  void Answer() {
    const int connection = accept(listener_.socket_fd(), nullptr, nullptr);
    std::array<char, 4096> part{};
    ssize_t got = 0;
    while (request_.find("\r\n\r\n") == std::string::npos &&
           (got = recv(connection, part.data(), part.size(), 0)) > 0) {
      request_.append(part.data(), static_cast<size_t>(got));
    }
    for (size_t sent = 0; sent < answer_.size() && got > 0;) {
      got = send(connection, answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
      sent += got > 0 ? static_cast<size_t>(got) : 0;
    }
    close(connection);
  }

  const std::string answer_;
  const Listener listener_;
  std::string request_;
  std::thread thread_;
};

inline std::string Http(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace millrace
