#include "base/host_and_port.h"

#include <algorithm>
#include <cstddef>

namespace millrace {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "127.0.0.1", but not a name such as "127.example".
bool IsLoopbackOfIpv4(std::string_view host) {
  const auto is_of_address = [](char c) { return IsDigit(c) || c == '.'; };
  return host.starts_with("127.") && std::ranges::all_of(host, is_of_address);
}

}  // namespace

bool IsHostAndPort(std::string_view text) {
  constexpr size_t kMostDigits = 5;
  constexpr int kMostPort = 65535;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string_view::npos) return false;
  if (port.empty() || port.size() > kMostDigits || !std::ranges::all_of(port, IsDigit))
    return false;
  int number = 0;
  for (const char digit : port) number = 10 * number + (digit - '0');
  return number <= kMostPort;
}

bool IsLoopback(std::string_view host_and_port) {
  if (!IsHostAndPort(host_and_port)) return false;
  const std::string_view host = host_and_port.substr(0, host_and_port.rfind(':'));
  return host == "localhost" || host == "[::1]" || IsLoopbackOfIpv4(host);
}

}  // namespace millrace
