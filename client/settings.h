// What the library's callers give and get, as the rest of Millrace has it.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"
#include "millrace/parameter_manager.h"

namespace millrace::client {

Status ToPublic(const absl::Status& status);
JobConfig ConfigOf(const Settings& settings);
// InvalidArgument with the field and what to give.
absl::Status CheckSettings(const Settings& settings);

}  // namespace millrace::client
