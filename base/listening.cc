#include "base/listening.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace millrace {
namespace {

Status WhyNoListening(int reason) {
  if (reason == EADDRINUSE) {
    return absl::FailedPreconditionError("is in use by another program");
  }
  if (reason == EADDRNOTAVAIL) {
    return absl::FailedPreconditionError("is no address of this machine");
  }
  return absl::FailedPreconditionError(std::string("cannot be listened at: ") +
                                       std::strerror(reason));
}

}  // namespace

Status CheckCanListen(const std::string& host, uint32_t port) {
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = is_bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) {
    return absl::NotFoundError(std::string("is unknown: ") + gai_strerror(unknown));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (socket < 0) continue;
    const int on = 1;  // as servers do: connections that have just ended are in nobody's way
    (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool is_bound = bind(socket, at->ai_addr, at->ai_addrlen) == 0;
    if (!is_bound) reason = errno;
    close(socket);
    if (is_bound) return absl::OkStatus();
  }
  return WhyNoListening(reason);
}

}  // namespace millrace
