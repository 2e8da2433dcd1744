// A shard's parameters, and the optimizer that changes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/forgetting.h"
#include "models/optimizer.h"
#include "processors/group_sync.h"
#include "processors/previous_round.h"
#include "processors/server_options.h"
#include "processors/shard_parameters.h"
#include "stores/embedding_table.h"
#include "stores/ordered_byte_map.h"
#include "stores/parameter_shard.h"

namespace millrace {

// Updates that are combined in one step. Floats are added in this order.
using Updates = std::span<const Gradient::Update* const>;

// The shape of what the shard saves: of its blocks, and of its embedding rows with the optimizer's
// state. REQUIRES of the second: options.embeddings.
BlockShape BlockShapeOf(const ServerOptions& options);
EmbeddingTableOptions TableOptionsOf(const ServerOptions& options);

// Not thread-safe.
class ShardModel {
 public:
  // Embedding rows are read from the store when they are not in memory; it outlives the model.
  ShardModel(const ServerOptions& options, const OrderedByteMap* store);

  const ParameterShard& shard() const { return shard_; }
  ParameterShard& mutable_shard() { return shard_; }
  // Null when the job has none.
  EmbeddingTable* embeddings() const { return embeddings_.get(); }
  // Null unless the model is EXTERNAL.
  const ShardParameters* parameters() const { return parameters_.get(); }
  ShardParameters* mutable_parameters() { return parameters_.get(); }
  uint64_t steps() const { return steps_; }
  void set_steps(uint64_t steps) { steps_ = steps; }
  // How far the steps so far have shrunk an embedding row that none of them names (RowTime); where
  // the shard forgets, how often it has.
  double shrinkage() const { return shrinkage_; }
  void set_shrinkage(double shrinkage) { shrinkage_ = shrinkage; }

  // Applies the updates as one step at `now_ms`. A single weight change counts with its worker's
  // share, 1 / `average_over` (0: all workers' changes are present). `previous`, if not null, gets
  // the embedding rows before the step. Returns whether the result is finite: if not, nothing has
  // changed. Updates without rows make no step. Errors: the store's.
  StatusOr<bool> Step(Updates updates, size_t average_over, int64_t now_ms,
                      PreviousRound* previous);
  // The same of named parameters and tables, by updates of `clock`. Puts count, whatever else is
  // not finite. REQUIRES parameters().
  StatusOr<ShardParameters::Outcome> StepParameters(Updates updates, Clock clock, int64_t now_ms,
                                                    PreviousRound* previous, const GroupSync& sync);
  // REQUIRES options.forgets.
  void Forget();
  // Sets the weights. REQUIRES a dense slice of the shard's range.
  void SetWeights(const Slice& slice);

 private:
  StatusOr<bool> AddChanges(Updates updates, double weight, size_t average_over);
  StatusOr<bool> StepByGradients(Updates updates, double weight, int64_t now_ms,
                                 PreviousRound* previous);
  // Adds up the embedding rows of the updates, times `scale`, into row_ids_ and row_sum_.
  void SumEmbeddings(Updates updates, float scale);
  Status StepEmbeddings(int64_t now_ms, PreviousRound* previous);

  const KeyRange range_;
  const ParameterParts parts_;      // of the shard's keys
  const ParameterParts row_parts_;  // of an embedding row
  const UpdateKind updates_;
  const bool adds_up_;  // OptimizerOptions::Kind::kSum; else it steps by the rows' mean
  const double l2_;
  const double row_l2_;
  const std::optional<OnlineForgetting> forgets_;
  std::unique_ptr<Optimizer> optimizer_;
  ParameterShard shard_;
  std::unique_ptr<EmbeddingTable> embeddings_;
  std::unique_ptr<ShardParameters> parameters_;
  uint64_t steps_ = 0;
  double shrinkage_ = 0;
  // Scratch of Step.
  std::vector<float> sum_;
  std::vector<EmbeddingId> row_ids_;
  std::vector<float> row_sum_;
  std::vector<float> row_gradient_;
};

}  // namespace millrace
