// Shards that are at the cut at which their job goes over to another number of shards.
#pragma once

#include <chrono>
#include <map>
#include <set>

#include "base/status.h"
#include "base/types.h"
#include "job/job_registry.h"
#include "messages/records.pb.h"
#include "server/hosted_shard.h"

namespace millrace {

// A sealed shard (ShardSeal) goes on answering; when a checkpoint has that it is sealed, that is
// published, and when all shards of the job have published it, the next layout of shards is in
// force. Not thread-safe.
class ShardSeals {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  ShardSeals(const JobTraining& training, JobRegistry& registry)
      : training_(training), registry_(registry) {}

  // Whether the shard is sealed, and no checkpoint has it yet.
  bool WantsCheckpoint(const HostedShard& hosted);
  // Publishes what is news. Returns whether the next layout is in force, which is looked up a few
  // times a second while a shard here is sealed; false while no broker answers.
  StatusOr<bool> Advance(const HostedShards& shards, Time now);

 private:
  const JobTraining& training_;
  JobRegistry& registry_;
  // Where each sealed shard stood when that was noticed: a checkpoint of there or later has it.
  std::map<ShardId, Offset> noticed_;
  std::set<ShardId> published_;
  Time next_look_;
};

}  // namespace millrace
