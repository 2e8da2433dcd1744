// What a person asks of a job's master, wherever that runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "master/job_view.h"
#include "messages/job.pb.h"

namespace millrace {

// Has the job's master stop the job's processes, and waits until it has. Unavailable, pending
// (base/error_marks.h): no master answers; the next one does not stop them. FailedPrecondition: no
// master has run this job. Cancelled when `stop` is set.
StatusOr<JobProcesses> StopJob(const JobConfig& config, const std::atomic<bool>& stop);

// Gives the job another number of logical workers (docs/leases.md), and waits until they are there
// and the others have left. InvalidArgument or FailedPrecondition, and nothing has changed: fewer
// than one, more than there may be, a job that leases no rows, has ended, or is changing to another
// number. Unavailable, pending: no master answers;
// the request stays in `control` for the next one. Cancelled as above.
StatusOr<JobProcesses> ResizeJob(const JobConfig& config, uint32_t workers,
                                 const std::atomic<bool>& stop);

// Has the process `to`, "server-1", host the shard from now on (docs/master.md), and waits until
// the plan says so. What it hosts already stays. InvalidArgument or FailedPrecondition, and nothing
// has changed: the job has no such shard or process, does not run, or has ended. Unavailable and
// Cancelled as above.
StatusOr<JobProcesses> MoveShard(const JobConfig& config, uint32_t shard, const std::string& to,
                                 const std::atomic<bool>& stop);

// Whether a job may have so many shards. InvalidArgument says how many it may have.
Status CheckShardCount(uint32_t shards);

// Gives the job another number of shards (docs/master.md), and waits until its plan has them. OK,
// too, when it has so many already. InvalidArgument or FailedPrecondition, and nothing has changed:
// a number that CheckShardCount refuses, a job without servers of its master, of trainers of one's
// own or of several groups of servers, one that has ended, or is changing its shards or workers.
// Unavailable and Cancelled as above.
StatusOr<JobProcesses> ReshardJob(const JobConfig& config, uint32_t shards,
                                  const std::atomic<bool>& stop);

}  // namespace millrace
