// What a shard needs besides the weights for its answers at the previous clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/moments.h"
#include "stores/embedding_table.h"
#include "topics/gradient_codec.h"

namespace millrace {

// In sequential jobs of several shards, a worker may be at the previous clock in other shards. This
// shard then answers it with the state before its last round, so that the worker's update of that
// clock has the same bytes again. (ParameterShard keeps the weights.) A part of the shard's state;
// not thread-safe.
class PreviousRound {
 public:
  explicit PreviousRound(size_t numeric_columns) : moments_(numeric_columns) {}

  // To be called at the start of a round, with what it will replace. The round has changed no
  // embedding rows yet.
  void Begin(const Moments& moments, const RowTime& time);
  // The rows that the round is about to change. REQUIRES ascending, distinct ids.
  void KeepRows(std::span<const EmbeddingId> ids, std::vector<float> values);

  const Moments& moments() const { return moments_; }
  int64_t step_ms() const { return time_.ms; }
  // As of when rows that the round did not change are read.
  const RowTime& row_time() const { return time_; }
  // Replaces in `values`, the present rows of `ids`, those that the round changed by their previous
  // values.
  void RestoreRows(std::span<const EmbeddingId> ids, size_t width, std::span<float> values) const;

  void Save(ShardState& state) const;
  // InvalidArgument when it does not fit a shard of this shape. REQUIRES CheckStateTimes.
  Status Load(const ShardState& state, const GradientShape& shape);

 private:
  Moments moments_;
  std::vector<EmbeddingId> ids_;  // ascending
  std::vector<float> rows_;
  RowTime time_;
};

}  // namespace millrace
