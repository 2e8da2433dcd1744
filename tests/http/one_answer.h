// HTTP servers of a test's own, on sockets of this machine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>

namespace millrace {

// A port where nobody answers.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int socket_fd() const { return socket_; }
  const std::string& url() const { return url_; }

 private:
  const int socket_;
  std::string url_;
};

// Gives one answer to one request.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : answer_(std::move(answer)), thread_([this] { Answer(); }) {}
  ~OneAnswer() { Join(); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  const std::string& url() const { return listener_.url(); }
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
