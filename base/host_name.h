// The name of this machine.
#pragma once

#include <optional>
#include <string>

namespace millrace {

// As the system tells it; none when it tells none. Thread-safe.
std::optional<std::string> HostName();

}  // namespace millrace
