// Encodes a worker's update as messages, one for each shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "models/top_k.h"
#include "processors/batch_trainer.h"
#include "processors/worker_options.h"

namespace millrace {

// The embedding rows of a batch, in the order of their ids.
struct BatchRows {
  std::vector<EmbeddingId> ids{};  // ascending, distinct
  std::vector<float> values{};     // row by row
  std::vector<float> gradient{};   // of the same shape
};

// Cuts an update into the shards' parts: all of it, or its largest values (--top-k), in 32 bits or
// in 16. Which values are sent and how they are rounded does not depend on the number of shards.
// Not thread-safe.
class UpdateEncoder {
 public:
  // `model` outlives the encoder.
  UpdateEncoder(const WorkerOptions& options, const Model& model);

  // Begins an update that was trained on these rows: to be called once, before EncodePart.
  // `learnt`: the ids of the rows, by shard. All three arguments outlive the calls of EncodePart.
  void Begin(const BatchTrainer::Result& result, GradientSum& gradient, const BatchRows& rows,
             const std::vector<std::vector<EmbeddingId>>& learnt);
  // The bytes of the message to the shard: `message` with the shard's part of the update.
  // ResourceExhausted when the message would be too large.
  StatusOr<std::string> EncodePart(ShardId shard, Gradient& message);

 private:
  KeyRange RangeOf(ShardId shard) const;
  // The gradients of some of the batch's rows, ascending.
  std::vector<float> GradientOf(std::span<const EmbeddingId> ids) const;
  // The power of two by which the values are packed.
  int32_t Exponent() const;
  // The shard's part of what was chosen.
  void AddChosen(ShardId shard, Gradient::Update& update) const;
  void AddRows(ShardId shard, Gradient::Update& update) const;

  const WorkerOptions options_;
  const Model& model_;
  // The values that were not sent yet. They are lost when this object is destroyed.
  std::optional<TopK> top_k_;

  // Of the present update:
  const BatchTrainer::Result* result_ = nullptr;
  GradientSum* gradient_ = nullptr;
  const BatchRows* rows_ = nullptr;
  const std::vector<std::vector<EmbeddingId>>* learnt_ = nullptr;
  const TopK::Chosen* chosen_ = nullptr;  // null: all of it
  int32_t exponent_ = 0;
};

}  // namespace millrace
