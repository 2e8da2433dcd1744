#include "base/host_name.h"

#include <unistd.h>

#include <array>

namespace millrace {

std::optional<std::string> HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return std::nullopt;
  return name.data();
}

}  // namespace millrace
