// Checks of TopicSource's options.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"
#include "producer/source_run.h"

namespace millrace {

// What can be checked without a broker, but for the columns and the format. InvalidArgument, with
// the remedy.
Status CheckSourceOptions(const JobConfig& config, const SourceRun::Options& options);

}  // namespace millrace
