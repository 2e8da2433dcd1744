// The options of a worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "messages/training.pb.h"
#include "models/model.h"
#include "topics/frame.h"
#include "topics/partitioning.h"
#include "topics/topics.h"
#include "topics/weights_codec.h"

namespace millrace {

struct WorkerOptions {
  uint64_t job = 0;  // hash of its name, in every message; of a group its own (HashOfGroup)
  uint64_t epoch = 1;
  WorkerId worker = 0;
  uint32_t workers = 1;           // that the job may have
  uint32_t first_workers = 0;     // so many of them are there from the beginning; 0: all
  Clock joined = 0;               // the clock at which it has joined the running job; 0: it has not
  Dealing dealing;                // of the rows, to the workers from the beginning
  uint32_t dealt_workers = 0;     // only so many workers have rows; 0: all
  uint32_t shards = 1;            // of its group of servers
  uint32_t group = 0;             // of servers, that it works with,
  WorkerId first_of_group = 0;    // and the first worker of those that do
  size_t classes = 2;             // 0: a regression
  bool balances_classes = false;  // rows are weighed by ClassBalance
  size_t numeric_columns = 0;
  Training training;
  std::vector<NamedTable> tables{};         // model EXTERNAL
  size_t pipeline = 1;                      // updates that it may have in flight (PipelineOf)
  bool dead_letter_reasons_only = false;    // see MakeDeadLetter
  bool evaluate_batches = false;            // fill WorkerOutput::evaluations
  size_t max_frame_bytes = kMaxFrameBytes;  // larger messages are split
  // A larger message is an error, since a shard does not keep more chunks of one message.
  size_t most_message_bytes = ChunkLimits().sender_bytes;
  // As the broker calls them; for errors.
  std::string gradients_topic = "gradients";
  std::string weights_topic = "weights";

  // Of `gradients`, where its group's shard reads.
  int32_t PartitionOf(ShardId shard) const { return static_cast<int32_t>(shard + group * shards); }
  // Of `weights`, which all workers of its group read.
  int32_t SharedPartition() const { return SharedWeightsPartition(workers, group); }
  uint32_t workers_at_first() const { return first_workers > 0 ? first_workers : workers; }
  // At first.
  uint32_t workers_with_rows() const {
    return dealt_workers > 0 ? dealt_workers : workers_at_first();
  }
};

// Of the answers that the worker takes.
WeightsShape WeightsShapeFrom(const WorkerOptions& options, const Model& model);

}  // namespace millrace
