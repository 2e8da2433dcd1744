// --process, by which MasterApp tells a program who it is in the plan.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "topics/planned_hosts.h"

namespace millrace {

// Empty: not set, so the program was started by hand. InvalidArgument: no such thing.
StatusOr<std::optional<Incarnation>> IncarnationFlag(const std::string& process);

}  // namespace millrace
