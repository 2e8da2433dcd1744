// What a shard of a job is made with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "processors/policy.h"
#include "stores/embedding_table.h"
#include "topics/frame.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/packed_floats.h"

namespace millrace {

// Of an update's values, and of weights. The square of a larger one is no float any more, and a few
// of them would carry the weights to infinity.
inline constexpr float kLargestValue = 1e18f;

struct ServerOptions {
  uint64_t job = 0;  // its name's hash, which every message says
  uint64_t epoch = 1;
  ShardId shard = 0;
  uint32_t shards = 1;               // of the job
  KeyRange range;                    // of this shard
  uint64_t penalised_end = 0;        // keys from here on (the bias) are not penalised
  uint64_t linear_end = UINT64_MAX;  // keys from here on (a network's) are not of a linear model
  std::vector<RandomInitRange> random_init_ranges{};  // of the job's keys; the others start at zero
  uint64_t seed = 1;                                  // of the random initial weights
  uint32_t workers = 1;
  size_t classes = 2;
  size_t numeric_columns = 0;
  ConsistencyPolicy consistency = ConsistencyPolicy::Sequential();
  bool average_changes = false;                         // updates are weight changes, not gradients
  FloatFormat values = Training::Compression::FLOAT32;  // of updates
  OptimizerOptions optimizer;
  double l2 = 0;                                    // added to the gradient
  std::optional<EmbeddingTableOptions> embeddings;  // slot_floats follows from the optimizer
  // A shard of which no copy is left goes on from the weights that workers have (LostState).
  bool weights_from_workers = false;

  size_t max_frame_bytes = kMaxFrameBytes;        // larger messages are split
  ChunkLimits chunks{};                           // of updates that were split
  size_t most_message_bytes = kMostMessageBytes;  // pieces of a saved state are no larger

  // A shard keeps what answers of the clock before are made of.
  bool keeps_previous_round() const { return shards > 1 && consistency.sequential(); }
};

GradientShape GradientShapeFrom(const ServerOptions& options);

}  // namespace millrace
