// The ports that the Kafka log of checkpoints implements too, on the memory log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_transaction.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// Tells its host by a status and by `died` that the process ends in the middle of a call.
class ServerLog final : public CheckpointLog, private TransactionPort {
 public:
  // References outlive it.
  ServerLog(World& world, ShardId shard, const std::string& transactional_id, const uint64_t& epoch,
            bool& died)
      : world_(world),
        shard_(shard),
        partition_(static_cast<int32_t>(shard)),
        transactional_id_(transactional_id),
        epoch_(epoch),
        died_(died) {}

  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override;
  Status TrimGradients(Offset position) override;

 private:
  // The first of a transaction; one of before that was committed in silence is over.
  Status Begin() override;
  Status Append(std::string_view key, std::string_view value) override;
  Status AppendDeadLetter(std::string_view letter) override;
  StatusOr<Offset> AwaitDelivery() override;
  Status Commit() override;
  Status Abort() override;

  // As the client marks it.
  static StatusOr<Offset> Known(StatusOr<Offset> offset);
  bool IsFenced() const { return world_.log.IsFenced(transactional_id_, epoch_); }
  Status Died();

  World& world_;
  ShardId shard_;
  int32_t partition_;
  const std::string& transactional_id_;
  const uint64_t& epoch_;
  bool& died_;
  CheckpointTransaction transaction_{*this};
  Offset end_ = 0;
  bool lost_ = false;       // a record of this transaction
  bool committed_ = false;  // this transaction, whether that is known or not
  bool hopeless_ = false;   // it has said that no other will succeed
};

}  // namespace millrace::simulation
