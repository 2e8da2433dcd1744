// What a server does when another one has taken its shards over.
#pragma once

#include <atomic>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"

namespace millrace {

// The newer of two servers on one shard fences the older, which stops. Where both have supervisors
// the older is started again, and would fence the newer in turn, for ever. So who was fenced leaves
// a mark in its data folder, and after the next start it waits for as long as the other one lives.
// (Without a mark a start waits for nobody: who replaces a server that hangs or was killed is not
// held up.)

// Leaves the mark; what goes wrong is logged.
void RememberTakeover(const JobConfig& config, const std::vector<ShardId>& shards);

// Where there is a mark: waits until none of the shards' servers has sent a heartbeat to `metrics`
// for some seconds, says so in the log, and removes the mark. Cancelled when stopped; errors are
// those of the broker.
Status WaitWhileTakenOver(const JobConfig& config, const std::vector<ShardId>& shards,
                          const std::atomic<bool>& stop);

}  // namespace millrace
