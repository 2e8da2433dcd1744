// Keeps two servers from fencing each other for ever.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// The newer of two servers on one shard fences the older, which stops. Where both have supervisors
// the older is started again, and would fence the newer in turn, for ever. So a fenced server
// leaves a mark in its data folder, and after its next start it waits while the other one runs.
// (Without a mark a start does not wait: the replacement of a server that hangs or was killed is
// not delayed.)

// What a server that waits logs about the one that took the shard over, by its newest heartbeat.
std::string TakenOverText(const MetricPoint::ServerProgress& holder);

// Who, by the shard's last heartbeats in `metrics`, has hosted it after `process` did; empty:
// nobody. Errors: those of the broker.
StatusOr<std::optional<std::string>> SuccessorOf(const JobConfig& config, ShardId shard,
                                                 const std::string& process,
                                                 const std::atomic<bool>& stop);

// Leaves the mark; errors are logged.
void RememberTakeover(const JobConfig& config, const std::vector<ShardId>& shards);

// If there is a mark: waits until no other server of these shards has sent a heartbeat to `metrics`
// for some seconds, logs that it waits, and removes the mark. Cancelled when stopped; errors are
// those of the broker.
Status WaitWhileTakenOver(const JobConfig& config, const std::vector<ShardId>& shards,
                          const std::atomic<bool>& stop);

// Why records of `gradients` were deleted before this process has read them: the error that ends
// it.
Status WhyRecordsAreGone(const JobConfig& config, ShardId shard, const std::atomic<bool>& stop);

}  // namespace millrace
