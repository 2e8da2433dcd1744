// What all processes of a job must agree on, in the job topic: its features, its training.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
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
#include "topics/topics.h"

namespace millrace {

// The producer publishes the features (it finds the classes), the server the training settings; all
// other processes wait for them, so that processes can start in any order. The first published
// value is final: publishing another one returns FailedPrecondition with the differing fields. So
// does whatever reads or waits, if a program of another version began the job (job/begun_by.h).
// Used by one thread.
class JobRegistry {
 public:
  // `stop` ends every wait with Cancelled; it outlives the registry.
  static StatusOr<std::unique_ptr<JobRegistry>> Create(const JobConfig& config,
                                                       const std::atomic<bool>& stop);
  virtual ~JobRegistry() = default;

  // Reads to the end of the topic; returns what has been published, if anything.
  virtual StatusOr<std::optional<JobFeatures>> ReadFeatures() = 0;
  virtual StatusOr<std::optional<JobTraining>> ReadTraining() = 0;

  // Wait until it has been published; print what is awaited to stderr every 5 s.
  virtual StatusOr<JobFeatures> WaitForFeatures() = 0;
  virtual StatusOr<JobTraining> WaitForTraining() = 0;

  // When the training settings that were read were published, in milliseconds since 1970; 0: they
  // have not been, or the record does not say.
  virtual int64_t training_published_ms() const = 0;

  virtual Status PublishFeatures(const JobFeatures& features) = 0;
  virtual Status PublishTraining(const JobTraining& training) = 0;

  // A server has said why it cannot serve the job's parameters: the newest reason that was read,
  // and where it stands. Another server may.
  struct Refusal {
    Offset offset = 0;
    std::string reason;
  };
  virtual const std::optional<Refusal>& refusal() const = 0;
  virtual Status PublishRefusal(const std::string& reason) = 0;

  // The generation of the job's topics, a number: chosen at random by the first process that asks,
  // and the same for all processes as long as the topic exists.
  virtual StatusOr<uint64_t> Generation() = 0;
  // For workers, which may not write to the topic (docs/security.md): waits until a server has
  // asked.
  virtual StatusOr<uint64_t> WaitForGeneration() = 0;

  // The shards that every worker has left. When these are all shards, the job has ended, and a
  // process that starts has nothing to do.
  virtual StatusOr<std::set<ShardId>> ReadEnded() = 0;
  // Publishes that every worker has left this shard, and that its last checkpoint was attempted.
  virtual Status PublishEnded(ShardId shard) = 0;

  // How many shards the job has had by each of its layouts, from the first one, 0, on: the last one
  // is in force. Empty: its training settings have not been published.
  virtual StatusOr<std::vector<uint32_t>> ReadLayouts() = 0;
  // Publishes that the shard of this layout is sealed for good (ShardSeal): a checkpoint has it.
  // When all of the layout's shards are, the next layout, of `next_shards`, is in force. May be
  // said again.
  virtual Status PublishSealed(uint32_t layout, ShardId shard, uint32_t next_shards) = 0;

  // The newest offer of replicas of each server, by its first shard. Some of these servers may have
  // stopped.
  virtual StatusOr<std::vector<ReplicaOffer>> ReadOffers() = 0;
  virtual Status PublishOffer(const ReplicaOffer& offer) = 0;

  // The newest offer of straight answers of each shard, by its number. Some of these servers may
  // have stopped.
  virtual StatusOr<std::vector<AnswerOffer>> ReadAnswerOffers() = 0;
  virtual Status PublishAnswerOffer(const AnswerOffer& offer) = 0;
};

// Checks that an offer's address is HOST:PORT and nothing else, and that its list of shards is not
// too long, since other programs may write to the topic. Error: InvalidArgument.
Status CheckOffer(const ReplicaOffer& offer);
// The same; its address may be empty.
Status CheckOffer(const AnswerOffer& offer);

// What shards of each layout have said: how many shards the next layout has.
using SealedShards = std::map<uint32_t, std::map<ShardId, uint32_t>>;
// See JobRegistry::ReadLayouts. (Shards that a layout does not have are ignored, since other
// programs may write to the topic; those that contradict each other have not sealed it.)
std::vector<uint32_t> LayoutsOf(uint32_t first_shards, const SealedShards& sealed);
// Has a program work with the layout that is in force: sets the layout of `config` and the layout
// and shards of `training`, which the job has published. Returns what ReadLayouts does.
StatusOr<std::vector<uint32_t>> FollowLayout(JobRegistry& registry, JobConfig& config,
                                             JobTraining& training);

// Whether each of the shards 0, 1 .. is among those that have ended. (Other numbers are ignored,
// since other programs may write to the topic.)
bool EveryShardEnded(const std::set<ShardId>& ended, uint32_t shards);

}  // namespace millrace
