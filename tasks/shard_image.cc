#include "tasks/shard_image.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "models/initial_weights.h"
#include "processors/server_processor.h"
#include "processors/shard_model.h"
#include "stores/frozen_rows.h"
#include "tasks/state_codec.h"

namespace millrace {
namespace {

constexpr int64_t kNeverExpires = std::numeric_limits<int64_t>::max();
constexpr double kNeverCreated = std::numeric_limits<double>::infinity();  // it misses nothing

std::optional<EmbeddingTableOptions> TableOf(const ServerOptions& options) {
  if (!options.embeddings) return std::nullopt;
  return TableOptionsOf(options);
}

}  // namespace

ShardImage::ShardImage(const ServerOptions& options, std::span<const EmbeddingId> ids)
    : options_(options),
      shape_(BlockShapeOf(options)),
      table_(TableOf(options)),
      ids_(ids.begin(), ids.end()),
      weights_(InitialWeights(options.random_init_ranges, options.seed, options.range)),
      blocks_((options.range.size() + ParameterShard::kBlockKeys - 1) / ParameterShard::kBlockKeys),
      updated_ms_(ids.size(), kNeverExpires),
      changed_rows_(ids.size()) {
  MILLRACE_CHECK(ids.empty() || table_);
  MILLRACE_CHECK(std::ranges::adjacent_find(ids_, std::greater_equal<>()) == ids_.end());
  weights_.resize(options.range.size());
  next_.range = options.range;
  view_.weights = weights_;
  if (!table_) return;
  row_.resize(table_->width() + table_->slot_floats);
  rows_.resize(ids_.size() * table_->width());
  for (size_t row = 0; row < ids_.size(); ++row) DrawInitialRow(*table_, ids_[row], RowAt(row));
  view_.rows = rows_;
  if (!Shrinks()) return;
  row_shrinkage_.resize(ids_.size(), kNeverCreated);
  slots_.resize(ids_.size() * table_->slot_floats);
}

void ShardImage::Changes::Note(size_t item) {
  if (std::exchange(is_changed[item], uint8_t{1}) == 0) changed.push_back(item);
}

void ShardImage::CopyChanged(std::span<const float> items, size_t width, Changes& changes,
                             std::span<float> to) {
  for (const size_t item : changes.changed) {
    const size_t begin = item * width;
    const size_t count = std::min(width, items.size() - begin);
    std::ranges::copy(items.subspan(begin, count), to.begin() + static_cast<ptrdiff_t>(begin));
    changes.is_changed[item] = 0;
  }
  changes.changed.clear();
}

std::span<float> ShardImage::RowAt(size_t row) {
  return std::span(rows_).subspan(row * table_->width(), table_->width());
}

Status ShardImage::Take(CheckpointAssembler::Part part) {
  for (const Checkpoint::Entry& entry : part.entries) {
    if (ParameterShard::IsBlockKey(entry.key)) {
      MILLRACE_RETURN_IF_ERROR(TakeBlock(entry.key, entry.value));
    } else if (IsEmbeddingRowKey(entry.key)) {
      MILLRACE_RETURN_IF_ERROR(TakeRow(entry.key, entry.value));
    }
  }
  is_new_ = part.end.has_value();  // in the middle of a checkpoint there is nothing to show
  if (part.end) state_ = std::move(part.state);
  return absl::OkStatus();
}

Status ShardImage::TakeBlock(std::string_view key, std::string_view value) {
  MILLRACE_RETURN_IF_ERROR(ParameterShard::DecodeBlock(key, value, shape_, block_));
  const uint64_t begin = block_.begin() - shape_.range.begin;
  std::ranges::copy(block_.weights(), weights_.begin() + static_cast<ptrdiff_t>(begin));
  blocks_.Note(begin / ParameterShard::kBlockKeys);
  return absl::OkStatus();
}

Status ShardImage::TakeRow(std::string_view key, std::string_view value) {
  if (!table_) return absl::OkStatus();
  const std::optional<EmbeddingId> id = EmbeddingIdOf(key, table_->table);
  if (!id) return absl::OkStatus();
  const auto place = std::ranges::lower_bound(ids_, *id);
  if (place == ids_.end() || *place != *id) return absl::OkStatus();
  const auto row = static_cast<size_t>(place - ids_.begin());
  if (value.empty()) {
    ResetRow(row);
    return absl::OkStatus();
  }
  const StatusOr<EmbeddingRowHead> head =
      DecodeEmbeddingRow(value, table_->admit_after, table_->width(), row_);
  if (!head.ok()) {
    return absl::DataLossError("embedding row " + std::to_string(*id) + " " +
                               std::string(head.status().message()));
  }
  if (head->updates < table_->admit_after) {
    ResetRow(row);
    return absl::OkStatus();
  }
  std::ranges::copy(std::span(row_).first(table_->width()), RowAt(row).begin());
  updated_ms_[row] = head->updated_ms;
  changed_rows_.Note(row);
  if (Shrinks()) KeepMissed(row, *head);
  return absl::OkStatus();
}

void ShardImage::KeepMissed(size_t row, const EmbeddingRowHead& head) {
  row_shrinkage_[row] = head.shrinkage;
  const size_t floats = table_->slot_floats;
  std::ranges::copy(std::span(row_).last(floats),
                    slots_.begin() + static_cast<ptrdiff_t>(row * floats));
}

void ShardImage::ShowShrunkRows() {
  view_.rows = rows_;
  const size_t width = table_->width();
  const size_t floats = table_->slot_floats;
  for (size_t row = 0; row < ids_.size(); ++row) {
    const double missed = shrinkage_ - row_shrinkage_[row];
    if (missed <= 0) continue;
    table_->catch_up(missed, std::span(view_.rows).subspan(row * width, width),
                     std::span<const float>(slots_).subspan(row * floats, floats));
  }
}

void ShardImage::ResetRow(size_t row) {
  if (Shrinks()) row_shrinkage_[row] = kNeverCreated;
  DrawInitialRow(*table_, ids_[row], RowAt(row));
  updated_ms_[row] = kNeverExpires;
  changed_rows_.Note(row);
}

void ShardImage::ExpireRows(int64_t now_ms) {
  for (size_t row = 0; row < ids_.size(); ++row) {
    if (updated_ms_[row] == kNeverExpires) continue;
    const EmbeddingRowHead head{.updated_ms = updated_ms_[row]};
    if (HasExpired(head, now_ms, table_->expire_after_ms)) ResetRow(row);
  }
}

Status ShardImage::Finish() {
  MILLRACE_CHECK(is_new_);
  if (!state_) return absl::OkStatus();  // a job that has not begun
  MILLRACE_ASSIGN_OR_RETURN(const ShardState state, DecodeState(*state_));
  state_.reset();  // it may be large
  MILLRACE_RETURN_IF_ERROR(CheckStateFits(state, options_));
  if (const Status times = CheckStateTimes(state); !times.ok()) {
    return absl::DataLossError("the saved state is damaged: " + std::string(times.message()));
  }
  next_.has_ended = HasEnded(state);
  next_.position = Offset(state.position());
  next_.at_cut = state.at_cut();
  shrinkage_ = state.shrinkage();
  if (table_ && table_->expire_after_ms > 0) ExpireRows(state.step_ms());
  return absl::OkStatus();
}

void ShardImage::Show() {
  CopyChanged(weights_, ParameterShard::kBlockKeys, blocks_, view_.weights);
  if (table_) CopyChanged(rows_, table_->width(), changed_rows_, view_.rows);
  if (Shrinks()) ShowShrunkRows();
  view_.range = next_.range;
  view_.has_ended = next_.has_ended;
  view_.position = next_.position;
  view_.at_cut = next_.at_cut;
  is_new_ = false;
}

}  // namespace millrace
