#include "models/mixed_softmax.h"

#include <algorithm>

#include "base/check.h"
#include "models/place_of.h"
#include "models/row_loss.h"
#include "models/target_scale.h"

namespace millrace {
namespace {

// A row's estimate is relative to the mean of the targets, in their own unit.
BatchLoss LossOfEstimate(const Row& row, float sum, const TargetMoments& targets,
                         std::span<float> scores) {
  const double shown = targets.known() ? targets.Shown(targets.mean + static_cast<double>(sum)) : 0;
  if (!scores.empty()) scores[0] = static_cast<float>(shown);
  const auto estimate = static_cast<float>((shown - targets.mean) / targets.deviation());
  return {TargetLoss(ErrorLoss::kSquared, 0, targets, estimate, row.target, {}).loss, 1};
}

}  // namespace

MixedSoftmax::MixedSoftmax(const OnlineSoftmax::Shape& shape)
    : shape_(shape), columns_(RaceView::CountsFor(shape.classes)) {
  MILLRACE_CHECK(shape.classes != 1 && shape.numeric <= shape.features);
}

void MixedSoftmax::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  if (shape_.wide) ids.insert(ids.end(), row.index.begin(), row.index.end());
  if (shape_.ids) ids.insert(ids.end(), row.ids.begin(), row.ids.end());
}

void MixedSoftmax::AddUp(const Row& row, std::span<const float> numeric,
                         std::span<const float> parameters, const EmbeddingBatch& embeddings,
                         std::span<float> sums) const {
  const size_t k = columns_;
  const auto add = [&](const float* weights, float x) {
    x = std::clamp(x, -OnlineRace::kLargestFeature, OnlineRace::kLargestFeature);
    for (size_t c = 0; c < k; ++c) sums[c] += weights[c] * x;
  };
  const auto row_of = [&](EmbeddingId id) {
    return embeddings.values.data() + PlaceOf(embeddings.ids, id) * k;
  };
  std::ranges::copy(parameters.last(k), sums.begin());
  for (size_t i = 0; i < numeric.size(); ++i) add(parameters.data() + i * k, numeric[i]);
  for (size_t i = 0; i < row.index.size(); ++i) {
    const size_t feature = row.index[i];
    add(shape_.wide ? row_of(feature) : parameters.data() + feature * k, row.value[i]);
  }
  if (!shape_.ids) return;
  for (const EmbeddingId id : row.ids) add(row_of(id), 1.0f);
}

BatchLoss MixedSoftmax::Compute(RowsView rows, const Scaler& scaler,
                                std::span<const float> parameters, const EmbeddingBatch& embeddings,
                                GradientSum* gradient, std::span<float> scores) const {
  MILLRACE_CHECK(gradient == nullptr && parameters.size() == parameter_count());
  MILLRACE_CHECK(scaler.columns() == shape_.numeric);
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * row_width());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * columns_);
  const bool of_classes = shape_.classes > 0;
  const std::vector<float> no_weights;
  TargetScale classes(scaler, {.of_classes = of_classes, .from_frequencies = false}, shape_.classes,
                      no_weights);
  std::vector<float> numeric(shape_.numeric);
  std::vector<float> sums(columns_);
  std::vector<float> slopes(columns_);
  BatchLoss total;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = *rows[i];
    MILLRACE_CHECK(row.numeric.size() == shape_.numeric && row.index.size() == row.value.size());
    MILLRACE_CHECK(row.index.empty() || row.index.back() < shape_.features);
    scaler.ScaleRow(row.numeric, numeric);
    AddUp(row, numeric, parameters, embeddings, sums);
    const std::span<float> of_row =
        scores.empty() ? scores : scores.subspan(i * columns_, columns_);
    const BatchLoss loss = of_classes ? classes.LossOf(row, sums, of_row, slopes)
                                      : LossOfEstimate(row, sums[0], scaler.target(), of_row);
    total.loss_sum += loss.loss_sum;
    total.weight_sum += loss.weight_sum;
  }
  return total;
}

}  // namespace millrace
