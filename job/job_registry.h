// What all processes of a job must agree on, in the job topic: its features, its training.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// The producer publishes the features (it finds the classes), the server the training; everybody
// else waits for them, so that processes start in any order. What was published once stays: who
// would publish something else gets FailedPrecondition with the differing fields.
// Used by one thread.
class JobRegistry {
 public:
  // `stop` ends every wait with Cancelled; it outlives the board.
  static StatusOr<std::unique_ptr<JobRegistry>> Create(const JobConfig& config,
                                                       const std::atomic<bool>& stop);
  virtual ~JobRegistry() = default;

  // What stands there now; reads to the end of the topic.
  virtual StatusOr<std::optional<JobFeatures>> ReadFeatures() = 0;
  virtual StatusOr<std::optional<JobTraining>> ReadTraining() = 0;

  // Wait until it stands there; a line to stderr every 5 s says what is waited for.
  virtual StatusOr<JobFeatures> WaitForFeatures() = 0;
  virtual StatusOr<JobTraining> WaitForTraining() = 0;

  virtual Status PublishFeatures(const JobFeatures& features) = 0;
  virtual Status PublishTraining(const JobTraining& training) = 0;

  // A number of this incarnation of the job's topics: chosen at random by the first who asks, and
  // the same for everybody as long as the topic is there.
  virtual StatusOr<uint64_t> Generation() = 0;

  // The shards that every worker has left: when that is all of them, the job has ended, and who
  // comes now has nothing to do.
  virtual StatusOr<std::set<ShardId>> ReadEnded() = 0;
  // Every worker has left this shard, and its last checkpoint has been tried.
  virtual Status PublishEnded(ShardId shard) = 0;

  // Where copies of shards are to be had: each server's last word, by its first shard. Some may
  // have gone.
  virtual StatusOr<std::vector<ReplicaOffer>> ReadOffers() = 0;
  virtual Status PublishOffer(const ReplicaOffer& offer) = 0;
};

// That an offer's address is HOST:PORT and nothing else, and its list of shards no longer than any:
// whoever may write to the topic says where servers go. InvalidArgument.
Status CheckOffer(const ReplicaOffer& offer);

// Whether each of the shards 0, 1 .. is among those that have ended. (Others may be, too: anybody
// may write to the topic.)
bool EveryShardEnded(const std::set<ShardId>& ended, uint32_t shards);

// Waits for a broker, then creates the job's topics, or checks them if they are there. Who does not
// know the number of shards yet leaves out the topics that have a partition for each.
Status PrepareTopics(const JobConfig& config, std::optional<uint32_t> shards,
                     const std::atomic<bool>& stop);

}  // namespace millrace
