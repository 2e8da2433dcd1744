// The shard of a job without servers: each process that trains has all of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "processors/server_processor.h"
#include "processors/worker_options.h"
#include "stores/ordered_byte_map.h"
#include "tasks/checkpoint.h"

namespace millrace {

// A fold over rounds, by the same ServerProcessor that a server has: replicas that fold the same
// rounds have the same weights, to the byte, and those of a sequential job with servers. No log has
// the rounds: what survives the death of all replicas is the last checkpoint. Pure; not
// thread-safe.
class ReplicatedShard {
 public:
  // REQUIRES: one shard, sequential, no embedding rows, no packed values.
  explicit ReplicatedShard(const ServerOptions& options);

  // How far it is: updates and leaves that were folded. Of two states of a job the one with more
  // follows from the other.
  uint64_t progress() const;
  const ServerProcessor& processor() const { return *processor_; }

  // A message of each worker that has not left, workers ascending. The values of those that are
  // `summed` are left out of them, and are together in `sum`.
  struct Round {
    std::vector<Gradient> messages;
    std::vector<WorkerId> summed;
  };
  // DataLoss: a message is none of this round; the shard must not be used then.
  Status Fold(Round round, std::span<const float> sum);
  // The weights for these workers, who have not left; decoded once for all of them.
  StatusOr<std::shared_ptr<const SharedWeights>> WeightsFor(std::span<const WorkerId> workers,
                                                            const Model& model,
                                                            const WorkerOptions& options) const;

  // Takes the state of a store of checkpoints, if that is further. Returns the progress of the
  // store's; 0: it has none. Errors: LoadSavedShard's.
  StatusOr<uint64_t> LoadIfFurther(const OrderedByteMap& store);
  // All of its state, for another replica, and its taking over, if it is further. DataLoss: it is
  // damaged, or another job's.
  StatusOr<std::string> EncodeImage() const;
  Status TakeImage(std::string_view bytes);

  // All of it, with position 0: a ServerApp whose `gradients` is empty could go on from it.
  // ResourceExhausted: it is larger than can be saved.
  StatusOr<Checkpoint> MakeCheckpoint() const;
  // A checkpoint with this progress is durable.
  void CheckpointDurable(uint64_t progress);

 private:
  struct Letter {
    uint64_t progress = 0;  // after the round that has counted it
    std::string frame;
  };

  Status FoldOne(const Gradient& message, std::string body, float largest);
  void KeepDeadLetters(uint64_t progress);
  StatusOr<std::vector<Checkpoint::Entry>> Entries() const;

  ServerOptions options_;
  std::unique_ptr<ServerProcessor> processor_;
  ServerOutput output_;         // scratch
  uint64_t durable_ = 0;        // the progress of the newest checkpoint that is known to be durable
  std::deque<Letter> unsaved_;  // no durable checkpoint has them; ascending
};

}  // namespace millrace
