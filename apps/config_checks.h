// What a configuration must be, whatever the program.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// InvalidArgument, in one line: what is wrong, by its name in the configuration, and what is right.
Status ValidateConfig(const JobConfig& config);

}  // namespace millrace
