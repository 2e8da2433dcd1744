// HOST:PORT, as addresses are given in flags and in messages.
#pragma once

#include <string_view>

namespace millrace {

// True for HOST:PORT with a port of 0 to 65535; an IPv6 host stands in brackets.
bool IsHostAndPort(std::string_view text);

// True when only this machine reaches the address: localhost, 127.*.*.* or [::1]. Names are not
// resolved. False for what is no HOST:PORT.
bool IsLoopback(std::string_view host_and_port);

}  // namespace millrace
