// Whether the members of a world are processes of one job, in one version.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace millrace {

// `about`: of each member, by position, what must be the same in all (in words). Of several the one
// that most members have counts, and of those the one that comes first. FailedPrecondition: this
// member has another one, and must leave; Unavailable: others have, and will leave.
Status CheckSameJob(std::span<const std::string> about, uint32_t self);

}  // namespace millrace
