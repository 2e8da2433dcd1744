// How a snapshot is asked for, and where it is put.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Asks shard 0 for a snapshot; a later one has a larger id.
OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t id);
// Tells a shard to wait for its cut no longer.
OutgoingRecord SnapshotCancel(const JobConfig& config, ShardId shard, uint64_t id);

// Where all servers of the job put it. Id 0: that of the job's end.
std::string SnapshotFolder(const JobConfig& config, uint64_t id);
// Where its files are written until all of them are there: SnapshotFolder with ".partial" appended.
std::string PartialSnapshotFolder(const JobConfig& config, uint64_t id);
// Removes what a process that was killed has left of the job's snapshots, and gives a whole one
// that had no time to get its name that name. For the process of shard 0.
void CleanUpSnapshots(const JobConfig& config);

// Asks a running job for a snapshot; waits until it is there, where it will be visible here.
// NotFound: there is no such job; FailedPrecondition: it has ended, or has not begun.
Status AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
