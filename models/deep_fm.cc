#include "models/deep_fm.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "models/fm_terms.h"
#include "models/network_pass.h"

namespace millrace {

DeepFm::DeepFm(const Shape& shape, const ScoreLoss& loss, float row_l2)
    : shape_(shape),
      network_(shape.fields * shape.factors + shape.numeric, shape.hidden),
      loss_(loss),
      row_l2_(row_l2) {
  MILLRACE_CHECK(shape.numeric <= shape.features);
}

std::unique_ptr<Model> DeepFm::WithClassWeights(const std::vector<float>& weights) const {
  if (!loss_.of_classes) return nullptr;
  MILLRACE_CHECK(weights.size() == score_count());
  auto model = std::make_unique<DeepFm>(*this);
  model->class_weights_ = weights;
  model->loss_.from_frequencies = false;
  return model;
}

BatchLoss DeepFm::Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                          const EmbeddingBatch& embeddings, GradientSum* gradient,
                          std::span<float> scores) const {
  constexpr size_t kBlock = NetworkPass::kBlockRows;
  MILLRACE_CHECK(parameters.size() == parameter_count());
  MILLRACE_CHECK(scaler.columns() == shape_.numeric);
  MILLRACE_CHECK(gradient == nullptr || embeddings.gradient.size() == embeddings.values.size());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * score_count());
  const size_t factors = shape_.factors;
  const FmTerms terms(shape_.features, factors, row_l2_, scaler, parameters, embeddings);
  std::span<float> sums;
  if (gradient != nullptr && !rows.empty()) {
    sums = {gradient->mutable_values() + linear_end(), network_.parameter_count()};
    std::fill_n(gradient->mutable_marks() + linear_end(), sums.size(), uint8_t{1});
  }
  NetworkPass pass(network_, parameters.subspan(linear_end()), sums);
  std::array<FmRow, kBlock> found;
  std::array<float, kBlock> values;  // estimates, later slopes
  BatchLoss total;
  for (size_t begin = 0; begin < rows.size(); begin += kBlock) {
    const RowsView block = rows.subspan(begin, std::min(kBlock, rows.size() - begin));
    for (size_t r = 0; r < block.size(); ++r) {
      MILLRACE_CHECK(block[r]->ids.size() <= shape_.fields);
      values[r] = terms.Score(*block[r], found[r]);
      float* to = pass.input(r).data();
      for (const size_t place : found[r].places) {
        to = std::copy_n(terms.FactorsAt(place), factors, to);
      }
      to = std::fill_n(to, (shape_.fields - found[r].places.size()) * factors, 0.0f);
      std::ranges::copy(found[r].numeric, to);
    }
    pass.Forward(block.size());
    for (size_t r = 0; r < block.size(); ++r) {
      const float y = values[r] + pass.output(r);
      const std::span<float> row_scores =
          scores.empty() ? scores : scores.subspan((begin + r) * score_count(), score_count());
      const RowLoss loss = loss_.Of(y, *block[r], scaler, row_scores);
      const float weight = class_weights_.empty() ? 1.0f : class_weights_[block[r]->label];
      total.loss_sum += static_cast<double>(weight) * loss.loss;
      total.weight_sum += static_cast<double>(weight);
      values[r] = weight * loss.slope;
    }
    if (gradient == nullptr) continue;
    pass.Backward(std::span(values).first(block.size()));
    for (size_t r = 0; r < block.size(); ++r) {
      terms.AddGradient(*block[r], found[r], values[r], *gradient);
      const float* slope = pass.input_slope(r).data();
      for (const size_t place : found[r].places) {
        float* const to = terms.FactorSlopesAt(place);
        for (size_t k = 0; k < factors; ++k) to[k] += *slope++;
      }
    }
  }
  return total;
}

}  // namespace millrace
