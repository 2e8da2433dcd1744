// A shard's weights and some of its embedding rows as of its checkpoints, for who only reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/server_options.h"
#include "stores/embedding_table.h"
#include "stores/parameter_shard.h"
#include "tasks/checkpoint_assembler.h"

namespace millrace {

// Takes the parts of the shard's checkpoints in their order, from an empty copy on. Each block and
// row of a part is decoded once; of what a block has besides (the optimizer's state) nothing is
// kept. What is taken changes the view only by Show, which copies the blocks and rows that have
// changed since the last one: so a part of a checkpoint is never seen without the rest.
//
// Not thread-safe; but view() may be read while Take or Finish runs.
class ShardImage {
 public:
  struct View {
    KeyRange range;
    std::vector<float> weights;  // of the range
    std::vector<float> rows;     // of the ids, row by row
    bool has_ended = false;      // every worker has left the shard, and all has been exchanged
    Offset position = 0;         // of `gradients`: where the shard was at the checkpoint
    bool at_cut = false;         // the updates held at a snapshot's cut are not in the weights yet
  };

  // `ids`: of the rows that are wanted, ascending and distinct; all others are passed over.
  ShardImage(const ServerOptions& options, std::span<const EmbeddingId> ids);

  // DataLoss when a block or a row is not one of this shard; the image is of no use then.
  Status Take(CheckpointAssembler::Part part);
  // Whether the last checkpoint was taken whole, and the view does not show it. Also at first: a
  // shard without a checkpoint is as it was initialized.
  bool is_new() const { return is_new_; }
  // Reads the state of the last checkpoint. REQUIRES is_new(). DataLoss when it is not one of this
  // shard.
  Status Finish();
  // Shows the checkpoint. REQUIRES: Finish was the last call.
  void Show();

  const View& view() const { return view_; }

 private:
  // Which of some items, numbered from 0, have changed.
  struct Changes {
    explicit Changes(size_t items) : is_changed(items) {}
    void Note(size_t item);
    std::vector<uint8_t> is_changed;
    std::vector<size_t> changed{};
  };
  // `items` is as long as `to`, `width` floats for each; forgets the changes.
  static void CopyChanged(std::span<const float> items, size_t width, Changes& changes,
                          std::span<float> to);

  Status TakeBlock(std::string_view key, std::string_view value);
  Status TakeRow(std::string_view key, std::string_view value);
  std::span<float> RowAt(size_t row);
  // The row counts as never created.
  void ResetRow(size_t row);
  // Whether rows miss penalties in steps that do not name them, or forget then
  // (ServerOptions::rows_miss_steps).
  bool Shrinks() const { return table_ && options_.rows_miss_steps(); }
  void KeepMissed(size_t row, const EmbeddingRowHead& head);
  // Copies all rows, each less the penalties that it has missed.
  void ShowShrunkRows();
  void ExpireRows(int64_t now_ms);

  const ServerOptions options_;
  const BlockShape shape_;
  const std::optional<EmbeddingTableOptions> table_;  // none: the job has no rows
  const std::vector<EmbeddingId> ids_;

  std::vector<float> weights_;
  Changes blocks_;
  std::vector<float> rows_;
  std::vector<int64_t> updated_ms_;  // of each row that may expire
  Changes changed_rows_;
  // Where rows miss penalties: the table's shrinkage at the last checkpoint, of each row when it
  // was saved (infinite: it was never created), and its optimizer's state.
  double shrinkage_ = 0;
  std::vector<double> row_shrinkage_;
  std::vector<float> slots_;
  std::optional<std::string> state_;  // of the last checkpoint, until Finish
  bool is_new_ = true;
  View next_;  // but for the weights and rows
  View view_;
  // Scratch of Take.
  ParameterBlock block_;
  std::vector<float> row_;
};

}  // namespace millrace
