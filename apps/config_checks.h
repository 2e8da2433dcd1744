// Checks of a configuration that every program makes.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// InvalidArgument with one line: the field's name in the configuration, what is wrong, and what is
// valid.
Status ValidateConfig(const JobConfig& config);

}  // namespace millrace
