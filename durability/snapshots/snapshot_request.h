// How a snapshot is requested, and where it is written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "topics/outgoing_record.h"

namespace millrace {

// The record that requests a snapshot from shard 0. The number distinguishes requests, and becomes
// the snapshot's id if it is larger than all ids so far.
OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t number);
// The record that cancels a snapshot: the shard stops waiting for its cut. `is_incomplete`: also
// where it has been cut, since its parts make no snapshot.
OutgoingRecord SnapshotCancel(const JobConfig& config, ShardId shard, uint64_t id,
                              bool is_incomplete = false);
// The record by which the shard is cut where it is.
OutgoingRecord SnapshotCutHere(const JobConfig& config, ShardId shard, uint64_t id);

// Where snapshots are written: --snapshot-dir, or where a single server writes them without it.
std::string SnapshotParent(const JobConfig& config);
// The snapshot's folder, the same for all servers of the job. Id 0: the snapshot at the job's end.
std::string SnapshotFolder(const JobConfig& config, uint64_t id);
// Where its files are written until it is complete: SnapshotFolder with ".partial" appended.
std::string PartialSnapshotFolder(const JobConfig& config, uint64_t id);
// Renames a complete snapshot of the job to its final name, where the process of shard 0 was killed
// before it could. For the start of that process: incomplete folders may contain parts that another
// process is writing.
void NameWholeSnapshots(const JobConfig& config);
// The folder of the job's newest snapshot, without that of its end; none: there is no such folder.
std::optional<std::string> NewestSnapshot(const JobConfig& config);
// Removes the incomplete folders that killed processes have left: all older than the complete
// snapshot `newest`; 0: the job has ended, so no process writes a numbered one any more.
void RemovePartialSnapshots(const JobConfig& config, uint64_t newest);

// Removes the job's complete snapshots but the newest `kept` and that of its end. One of another
// epoch of the job, or whose manifest cannot be read, is left alone. Whoever is killed meanwhile
// leaves a whole snapshot, or what RemovePartialSnapshots removes.
void RemoveOldSnapshots(const JobConfig& config, size_t kept);

// Requests a snapshot of a running job; waits until it is complete, if --snapshot-dir says where.
// Returns its folder; empty if nobody has waited for it. NotFound: there is no such job;
// FailedPrecondition: it has ended, or has not started.
StatusOr<std::string> AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop);
// The same, or of a job that has ended the folder of its last snapshot; FailedPrecondition if that
// is not there. REQUIRES: --snapshot-dir is given.
StatusOr<std::string> NewestStateAsSnapshot(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
