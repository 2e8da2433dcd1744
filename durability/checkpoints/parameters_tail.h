// Reads the checkpoints of a shard as they are committed.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "messages/job.pb.h"
#include "stores/ordered_byte_map.h"
#include "tasks/checkpoint_assembler.h"

namespace millrace {

// Reads the committed records of a shard's partition of `parameters` and assembles them to
// checkpoints. Used by one thread.
class ParametersTail {
 public:
  // Reads what `copy` does not have, from its offset on; an empty one has nothing. `wakeup` is
  // notified when there is something to poll; it outlives the tail. OutOfRange when the copy is not
  // of this topic: the partition ends before its offset, or is of another incarnation.
  static StatusOr<std::unique_ptr<ParametersTail>> Create(const JobConfig& config, ShardId shard,
                                                          const OrderedByteMap& copy,
                                                          Wakeup* wakeup,
                                                          const std::atomic<bool>& stop);

  // Passes some of the received parts to `take`, without waiting; returns the number of events.
  // Errors: those of `take`, OutOfRange when records were deleted while they were read, and
  // DataLoss when one is damaged.
  using Take = std::function<Status(CheckpointAssembler::Part part)>;
  StatusOr<size_t> Poll(const Take& take);

  // An upper bound of the records that had to be read when reading began.
  size_t behind() const { return behind_; }
  // Every checkpoint that existed when reading began has been handed out.
  bool caught_up() const { return caught_up_; }
  // A part of the last checkpoint is missing. (A committed checkpoint is never incomplete.)
  bool unfinished() const { return assembler_.unfinished(); }

 private:
  ParametersTail() = default;

  // Reads the partition's first record of a checkpoint, from `begin` on.
  Status CheckIncarnationOf(const OrderedByteMap& copy, int32_t partition, Offset begin,
                            Wakeup& wakeup, const std::atomic<bool>& stop);

  CheckpointAssembler assembler_;
  std::unique_ptr<PartitionConsumer> consumer_;
  size_t behind_ = 0;
  bool caught_up_ = false;
};

}  // namespace millrace
