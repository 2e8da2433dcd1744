#include "processors/previous_round.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "topics/figures_codec.h"
#include "topics/slice_codec.h"

namespace millrace {

void PreviousRound::Begin(const Moments& moments, const RowTime& time) {
  MILLRACE_CHECK(time.ms >= time_.ms);  // the log's time, folded as a maximum
  MILLRACE_CHECK(time.shrinkage >= time_.shrinkage);
  moments_ = moments;
  ids_.clear();
  rows_.clear();
  time_ = time;
}

void PreviousRound::KeepRows(std::span<const EmbeddingId> ids, std::vector<float> values) {
  MILLRACE_CHECK(std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end());
  MILLRACE_CHECK(ids.empty() ? values.empty() : values.size() % ids.size() == 0);
  ids_.assign(ids.begin(), ids.end());
  rows_ = std::move(values);
}

void PreviousRound::RestoreRows(std::span<const EmbeddingId> ids, size_t width,
                                std::span<float> values) const {
  MILLRACE_CHECK(values.size() == ids.size() * width && rows_.size() == ids_.size() * width);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = std::ranges::lower_bound(ids_, ids[i]);
    if (found == ids_.end() || *found != ids[i]) continue;
    const auto place = static_cast<size_t>(found - ids_.begin());
    std::copy_n(rows_.begin() + static_cast<ptrdiff_t>(place * width), width,
                values.begin() + static_cast<ptrdiff_t>(i * width));
  }
}

void PreviousRound::Save(ShardState& state) const {
  ShardState::PreviousRound& saved = *state.mutable_previous_round();
  ToProto(moments_, *saved.mutable_moments());
  saved.mutable_embeddings()->mutable_id()->Add(ids_.begin(), ids_.end());
  saved.mutable_embeddings()->mutable_value()->Add(rows_.begin(), rows_.end());
  saved.set_step_ms(time_.ms);
  saved.set_shrinkage(time_.shrinkage);
}

Status PreviousRound::Load(const ShardState& state, const GradientShape& shape) {
  const ShardState::PreviousRound& saved = state.previous_round();
  MILLRACE_RETURN_IF_ERROR(
      CheckMoments(saved.moments(), shape.numeric_columns, shape.classes, shape.workers));
  MILLRACE_RETURN_IF_ERROR(
      CheckEmbeddings(saved.embeddings(), shape.row_width, shape.shard, shape.shards));
  moments_ = Moments(shape.numeric_columns);
  moments_.Merge(FromProto(saved.moments()));
  moments_.resize = saved.moments().resize();
  moments_.workers = saved.moments().workers();
  ids_.assign(saved.embeddings().id().begin(), saved.embeddings().id().end());
  rows_.assign(saved.embeddings().value().begin(), saved.embeddings().value().end());
  time_ = {saved.step_ms(), saved.shrinkage()};
  return absl::OkStatus();
}

}  // namespace millrace
