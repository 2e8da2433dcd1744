// Whether a job's programs would refuse the settings they are given, before any of them is started.
#pragma once

#include "base/status.h"
#include "job/begun_job.h"
#include "messages/job.pb.h"

namespace millrace {

// Which of a job's programs get their settings from `config`.
struct ProgramsOfJob {
  bool train = false;  // ServerApps, or WorkerApps that train by all-reduce
  bool send_rows = false;
};

// Compares `config` with what the job was begun with, as these programs do. OK, too, when nobody
// has begun the job, or it has ended. FailedPrecondition with what differs and the remedy;
// InvalidArgument: `config` makes no sense.
Status CheckAsBegun(const JobConfig& config, const ProgramsOfJob& programs, const BegunJob& begun);

}  // namespace millrace
