// What a shard's answers of the clock before are made of, beside the weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/moments.h"
#include "topics/gradient_codec.h"

namespace millrace {

// In sequential jobs of several shards a shard serves what its last round replaced to a worker that
// other shards still hold at the clock before, so that the worker's update of that clock is the
// same bytes again. (ParameterShard keeps the weights.) In all jobs an answer says how far the
// worker's rows were counted at the clock before. A part of the shard's state; not thread-safe.
class PreviousRound {
 public:
  PreviousRound(uint32_t workers, size_t numeric_columns)
      : moments_(numeric_columns), progress_(workers) {}

  // A round begins: this is what it will replace. It has changed no embedding rows yet.
  void Begin(const Moments& moments, int64_t step_ms);
  // The rows that it is about to change. REQUIRES ascending, distinct ids.
  void KeepRows(std::span<const EmbeddingId> ids, std::vector<float> values);
  void KeepProgress(WorkerId worker, const RowProgress& progress) {
    progress_.at(worker) = progress;
  }

  const Moments& moments() const { return moments_; }
  int64_t step_ms() const { return step_ms_; }
  const RowProgress& progress(WorkerId worker) const { return progress_.at(worker); }
  // Puts the rows that the round changed back among `values`, which are those of `ids` now.
  void RestoreRows(std::span<const EmbeddingId> ids, size_t width, std::span<float> values) const;

  // The state's members are there already.
  void Save(ShardState& state) const;
  // DataLoss when it is none of a shard of this shape. REQUIRES: the state's members are workers.
  Status Load(const ShardState& state, const GradientShape& shape);

 private:
  Moments moments_;
  std::vector<EmbeddingId> ids_;  // ascending
  std::vector<float> rows_;
  int64_t step_ms_ = 0;
  std::vector<RowProgress> progress_;  // by worker
};

}  // namespace millrace
