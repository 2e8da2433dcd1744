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

// Asks shard 0 for a snapshot. The number tells requests apart, and becomes the id if it is larger
// than all ids so far.
OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t number);
// Tells a shard to wait for its cut no longer.
OutgoingRecord SnapshotCancel(const JobConfig& config, ShardId shard, uint64_t id);

// Where all servers of the job put it. Id 0: that of the job's end.
std::string SnapshotFolder(const JobConfig& config, uint64_t id);
// Where its files are written until all of them are there: SnapshotFolder with ".partial" appended.
std::string PartialSnapshotFolder(const JobConfig& config, uint64_t id);
// Gives a whole snapshot of the job its name where a killed process of shard 0 had no time to. For
// the start of that process: the parts in folders that are not whole may be another process's work.
void NameWholeSnapshots(const JobConfig& config);
// Removes the job's folders that killed processes have left: all older than the snapshot `newest`,
// which is whole; 0: the job has ended, so nobody writes a numbered one any more.
void RemovePartialSnapshots(const JobConfig& config, uint64_t newest);

// Asks a running job for a snapshot; waits until it is there, where it will be visible here.
// NotFound: there is no such job; FailedPrecondition: it has ended, or has not begun.
Status AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
