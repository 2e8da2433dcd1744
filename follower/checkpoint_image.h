// A shard as its checkpoints in `parameters` show it, with all of its embedding rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/server_options.h"
#include "stores/embedding_table.h"
#include "stores/frozen_rows.h"
#include "stores/parameter_shard.h"
#include "tasks/checkpoint_assembler.h"

namespace millrace {

// (tasks/shard_image.h is that of an evaluation, which knows its rows, and what they are is shown
// while others are taken.) Of a row it keeps the values, and the optimizer's state where rows miss
// penalties. Not thread-safe.
class CheckpointImage {
 public:
  explicit CheckpointImage(const ServerOptions& options);

  // Takes the next part of the shard's checkpoints, from an empty copy on. DataLoss: a block, a row
  // or the state is not one of this shard; the image is of no use then.
  Status Take(const CheckpointAssembler::Part& part);

  // The last part was the last of its checkpoint: all below is as of that. At first too: a shard
  // without a checkpoint is as it was initialized.
  bool is_whole() const { return is_whole_; }
  const ShardState& state() const { return state_; }
  KeyRange range() const { return options_.range; }
  std::span<const float> weights() const { return weights_; }

  struct RowPlace {
    EmbeddingId id = 0;
    uint32_t place = 0;
  };
  // Appends the rows that have values of their own, in no order.
  void AppendRows(std::vector<RowPlace>& rows) const;
  // Writes a row's values as the shard serves them.
  void ReadRow(uint32_t place, std::span<float> values) const;

 private:
  Status TakeBlock(std::string_view key, std::string_view value);
  Status TakeRow(std::string_view key, std::string_view value);
  Status TakeState(const std::string& bytes);
  // What of a row is kept.
  size_t RowFloats() const;
  uint32_t NewPlace(EmbeddingId id);
  void Remove(EmbeddingId id);

  const ServerOptions options_;
  const BlockShape shape_;
  const EmbeddingTableOptions table_;  // of no row, if the job has none
  const bool has_rows_;
  const bool shrinks_;  // rows miss penalties in steps that do not name them

  bool is_whole_ = true;
  ShardState state_;
  std::vector<float> weights_;
  absl::flat_hash_map<EmbeddingId, uint32_t> places_;
  std::vector<EmbeddingRowHead> heads_;  // by place, as the next
  std::vector<float> floats_;            // RowFloats() each
  std::vector<uint32_t> free_;           // places
  // Scratch of Take.
  ParameterBlock block_;
  std::vector<float> row_;
};

}  // namespace millrace
