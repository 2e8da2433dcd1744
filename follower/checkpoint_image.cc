#include "follower/checkpoint_image.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/initial_weights.h"
#include "processors/server_processor.h"
#include "processors/shard_model.h"
#include "tasks/state_codec.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

EmbeddingTableOptions TableOf(const ServerOptions& options) {
  return options.embeddings ? TableOptionsOf(options) : EmbeddingTableOptions();
}

}  // namespace

CheckpointImage::CheckpointImage(const ServerOptions& options)
    : options_(options),
      shape_(BlockShapeOf(options)),
      table_(TableOf(options)),
      has_rows_(options.embeddings.has_value()),
      shrinks_(has_rows_ && options.rows_miss_steps()),
      weights_(InitialWeights(options.random_init_ranges, options.seed, options.range)),
      row_(table_.width() + table_.slot_floats) {
  weights_.resize(options.range.size());
}

size_t CheckpointImage::RowFloats() const {
  return table_.width() + (shrinks_ ? table_.slot_floats : 0);
}

Status CheckpointImage::Take(const CheckpointAssembler::Part& part) {
  is_whole_ = false;
  for (const Checkpoint::Entry& entry : part.entries) {
    if (ParameterShard::IsBlockKey(entry.key)) {
      MILLRACE_RETURN_IF_ERROR(TakeBlock(entry.key, entry.value));
    } else if (IsEmbeddingRowKey(entry.key)) {
      MILLRACE_RETURN_IF_ERROR(TakeRow(entry.key, entry.value));
    }
  }
  if (!part.end) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(TakeState(part.state));
  is_whole_ = true;
  return absl::OkStatus();
}

Status CheckpointImage::TakeBlock(std::string_view key, std::string_view value) {
  MILLRACE_RETURN_IF_ERROR(ParameterShard::DecodeBlock(key, value, shape_, block_));
  const uint64_t begin = block_.begin() - options_.range.begin;
  std::ranges::copy(block_.weights(), weights_.begin() + static_cast<ptrdiff_t>(begin));
  return absl::OkStatus();
}

Status CheckpointImage::TakeRow(std::string_view key, std::string_view value) {
  if (!has_rows_) return absl::OkStatus();
  const std::optional<EmbeddingId> id = EmbeddingIdOf(key, table_.table);
  if (!id) return absl::OkStatus();
  if (value.empty()) {
    Remove(*id);
    return absl::OkStatus();
  }
  const StatusOr<EmbeddingRowHead> head =
      DecodeEmbeddingRow(value, table_.admit_after, table_.width(), row_);
  if (!head.ok()) {
    return absl::DataLossError("embedding row " + std::to_string(*id) + " " +
                               std::string(head.status().message()));
  }
  if (head->updates < table_.admit_after) {
    Remove(*id);
    return absl::OkStatus();
  }
  const auto known = places_.find(*id);
  const uint32_t place = known != places_.end() ? known->second : NewPlace(*id);
  heads_[place] = *head;
  std::copy_n(row_.begin(), RowFloats(),
              floats_.begin() + static_cast<ptrdiff_t>(place * RowFloats()));
  return absl::OkStatus();
}

uint32_t CheckpointImage::NewPlace(EmbeddingId id) {
  uint32_t place = 0;
  if (free_.empty()) {
    place = static_cast<uint32_t>(heads_.size());
    heads_.emplace_back();
    floats_.resize(floats_.size() + RowFloats());
  } else {
    place = free_.back();
    free_.pop_back();
  }
  places_[id] = place;
  return place;
}

void CheckpointImage::Remove(EmbeddingId id) {
  const auto known = places_.find(id);
  if (known == places_.end()) return;
  free_.push_back(known->second);
  places_.erase(known);
}

Status CheckpointImage::TakeState(const std::string& bytes) {
  MILLRACE_ASSIGN_OR_RETURN(ShardState state, DecodeState(bytes));
  MILLRACE_RETURN_IF_ERROR(CheckStateFits(state, options_));
  for (const Status& checked :
       {CheckStateTimes(state),
        CheckMoments(state.moments(), options_.numeric_columns, options_.classes, options_.workers),
        CheckSums(state.progressive(), options_.classes),
        CheckSums(state.window(), options_.classes)}) {
    if (!checked.ok()) return absl::DataLossError(checked.message());
  }
  // What is large and says nothing of the model.
  for (ShardState::Member& member : *state.mutable_members()) {
    member.clear_pending();
    member.clear_wanted();
  }
  state.clear_partial();
  state.clear_restoring();
  state_ = std::move(state);
  return absl::OkStatus();
}

// As a snapshot has them (VisitSnapshotRows).
void CheckpointImage::AppendRows(std::vector<RowPlace>& rows) const {
  const int64_t now_ms = options_.keeps_previous_round() && state_.has_previous_round()
                             ? state_.previous_round().step_ms()
                             : state_.step_ms();
  for (const auto& [id, place] : places_) {
    if (!HasExpired(heads_[place], now_ms, table_.expire_after_ms)) rows.push_back({id, place});
  }
}

void CheckpointImage::ReadRow(uint32_t place, std::span<float> values) const {
  const std::span<const float> row = std::span(floats_).subspan(place * RowFloats(), RowFloats());
  std::ranges::copy(row.first(table_.width()), values.begin());
  const double missed = state_.shrinkage() - heads_[place].shrinkage;
  if (shrinks_ && missed > 0) table_.catch_up(missed, values, row.subspan(table_.width()));
}

}  // namespace millrace
