// Reads the checkpoints of a shard as they are committed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/types.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
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
  // of this topic: the partition ends before its offset, say its brokers for KnownEnd::kPatience,
  // or is of another incarnation.
  static StatusOr<std::unique_ptr<ParametersTail>> Create(const JobConfig& config, ShardId shard,
                                                          const OrderedByteMap& copy,
                                                          Wakeup* wakeup,
                                                          const std::atomic<bool>& stop);

  // Passes some of the received parts to `take`, without waiting; returns the number of events.
  // Errors: those of `take`; OutOfRange when records were deleted while they were read; DataLoss
  // when one is damaged; Unavailable when some may be lost (KnownEnd::Overdue).
  using Take = std::function<Status(CheckpointAssembler::Part part)>;
  StatusOr<size_t> Poll(const Take& take);

  // An upper bound of the records that had to be read when reading began.
  size_t behind() const { return behind_; }
  // Every checkpoint that existed when reading began has been handed out.
  bool caught_up() const { return end_.is_reached(); }
  // A part of the last checkpoint is missing. (A committed checkpoint is never incomplete.)
  bool unfinished() const { return assembler_.unfinished(); }

 private:
  ParametersTail(std::string topic, int32_t partition)
      : topic_(std::move(topic)), partition_(partition) {}

  // Asks again while the partition ends before `known`.
  StatusOr<OffsetRange> QueryRange(Offset known, const BrokerRetry& retry);
  // Reads the partition's first record of a checkpoint.
  Status CheckIncarnationOf(const OrderedByteMap& copy, const OffsetRange& range, Wakeup& wakeup,
                            const std::atomic<bool>& stop);

  const std::string topic_;
  const int32_t partition_;
  CheckpointAssembler assembler_;
  std::unique_ptr<PartitionConsumer> consumer_;
  size_t behind_ = 0;
  KnownEnd end_;
};

}  // namespace millrace
