// When a process publishes the weights of its shards, for those who follow the job.
#pragma once

#include <chrono>
#include <map>

#include "base/status.h"
#include "base/types.h"
#include "server/answer_ways.h"
#include "server/hosted_shard.h"
#include "tasks/shard_feed.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Used by one thread.
class WeightsPublisher {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `shards`, their `feeds`, and what `answers` uses outlive it.
  WeightsPublisher(const HostedShards& shards, std::map<ShardId, ShardFeed>& feeds,
                   const RecordSink& answers)
      : shards_(shards), feeds_(feeds), answers_(answers) {}

  // As soon as they have changed, unless they have just been sent; now and then even so. Large ones
  // take time to send, and are sent less often. `ways`: how those of before went.
  Status Tick(Time now, AnswerWays& ways);
  // Not before this time.
  Time next() const { return next_; }
  // Whoever follows the job goes on with its last weights.
  Status PublishLast(AnswerWays& ways);

 private:
  // Shards whose newest values went to workers by streams only.
  void MarkUnpublished(AnswerWays& ways);

  const HostedShards& shards_;
  std::map<ShardId, ShardFeed>& feeds_;
  const RecordSink& answers_;
  Time next_;
  Time next_unchanged_;
};

}  // namespace millrace
