#include "processors/update_encoder.h"

#include <algorithm>

#include "base/check.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/packed_floats.h"
#include "topics/partitioning.h"
#include "topics/slice_codec.h"

namespace millrace {

UpdateEncoder::UpdateEncoder(const WorkerOptions& options, const Model& model)
    : options_(options), model_(model) {
  const double top_k = options.training.compression().top_k();
  if (top_k < 1) top_k_.emplace(top_k, model.parameter_count(), model.row_width());
}

KeyRange UpdateEncoder::RangeOf(ShardId shard) const {
  return RangeOfShard(shard, options_.shards, model_.parameter_count());
}

std::vector<float> UpdateEncoder::GradientOf(std::span<const EmbeddingId> ids) const {
  const size_t width = model_.row_width();
  std::vector<float> gradient;
  gradient.reserve(ids.size() * width);
  size_t place = 0;
  for (EmbeddingId id : ids) {
    while (place < rows_->ids.size() && rows_->ids[place] != id) ++place;
    MILLRACE_CHECK(place < rows_->ids.size());
    const float* const values = rows_->gradient.data() + place * width;
    gradient.insert(gradient.end(), values, values + width);
  }
  return gradient;
}

void UpdateEncoder::Begin(const BatchTrainer::Result& result, GradientSum& gradient,
                          const BatchRows& rows,
                          const std::vector<std::vector<EmbeddingId>>& learnt) {
  MILLRACE_CHECK(learnt.empty() || learnt.size() == options_.shards);
  result_ = &result;
  gradient_ = &gradient;
  rows_ = &rows;
  learnt_ = &learnt;
  chosen_ = nullptr;
  if (result.trained.empty()) return;
  if (top_k_) {
    std::vector<EmbeddingId> ids;
    for (const std::vector<EmbeddingId>& part : learnt) {
      ids.insert(ids.end(), part.begin(), part.end());
    }
    std::ranges::sort(ids);
    chosen_ = &top_k_->Choose(gradient, ids, GradientOf(ids));
  }
  exponent_ = Exponent();
}

// One for all shards: what a value is rounded to must not depend on how many there are.
int32_t UpdateEncoder::Exponent() const {
  const FloatFormat format = options_.training.compression().values();
  if (format != Training::Compression::FP16) return 0;
  if (chosen_ != nullptr) {
    return PackingExponent(format,
                           std::max(LargestFinite(chosen_->values), LargestFinite(chosen_->rows)));
  }
  const std::span<const float> dense =
      result_->change.empty() ? gradient_->values() : std::span<const float>(result_->change);
  return PackingExponent(format, std::max(LargestFinite(dense), LargestFinite(rows_->gradient)));
}

void UpdateEncoder::AddChosen(ShardId shard, Gradient::Update& update) const {
  const size_t value_bytes = BytesOfValue(options_.training.compression().values());
  EncodeSlice(chosen_->keys, chosen_->values, RangeOf(shard), value_bytes, *update.mutable_slice());
  const size_t width = model_.row_width();
  if (width == 0) return;
  EmbeddingBlock& block = *update.mutable_embeddings();
  block.Clear();
  for (size_t i = 0; i < chosen_->ids.size(); ++i) {
    if (ShardOfEmbedding(chosen_->ids[i], options_.shards) != shard) continue;
    block.add_id(chosen_->ids[i]);
    const float* const row = chosen_->rows.data() + i * width;
    block.mutable_value()->Add(row, row + width);
  }
}

void UpdateEncoder::AddRows(ShardId shard, Gradient::Update& update) const {
  const std::vector<EmbeddingId>& ids = learnt_->at(shard);
  const std::vector<float> sums = GradientOf(ids);
  update.mutable_embeddings()->mutable_id()->Assign(ids.begin(), ids.end());
  update.mutable_embeddings()->mutable_value()->Assign(sums.begin(), sums.end());
}

StatusOr<std::string> UpdateEncoder::EncodePart(ShardId shard, Gradient& message) {
  MILLRACE_CHECK(result_ != nullptr && message.has_update());
  Gradient::Update& update = *message.mutable_update();
  update.clear_slice();
  if (result_->trained.empty()) return SerializeMessage(message, options_.most_message_bytes);
  const KeyRange range = RangeOf(shard);
  const FloatFormat format = options_.training.compression().values();
  const bool packs = format != Training::Compression::FLOAT32;
  const bool changes = !result_->change.empty();
  std::span<const float> dense;  // as it is: it goes past `message`
  bool is_dense = false;
  if (chosen_ != nullptr) {
    AddChosen(shard, update);
  } else {
    is_dense = changes || GoesDensely(*gradient_, range, BytesOfValue(format));
    dense = changes ? std::span<const float>(result_->change) : gradient_->values();
    if (!is_dense) {
      EncodeSlice(*gradient_, range, BytesOfValue(format), *update.mutable_slice());
    } else if (packs) {
      EncodeDenseSlice(dense.subspan(range.begin, range.size()), range, *update.mutable_slice());
    }
    if (model_.row_width() > 0) AddRows(shard, update);
  }
  PackUpdate(format, exponent_, update);
  if (!is_dense || packs) return SerializeMessage(message, options_.most_message_bytes);
  return SerializeUpdate(message, dense.subspan(range.begin, range.size()), range,
                         options_.most_message_bytes);
}

}  // namespace millrace
