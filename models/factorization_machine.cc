#include "models/factorization_machine.h"

#include "base/check.h"
#include "models/fm_terms.h"

namespace millrace {

FactorizationMachine::FactorizationMachine(const Shape& shape, const ScoreLoss& loss, float row_l2)
    : shape_(shape), loss_(loss), row_l2_(row_l2) {}

std::unique_ptr<Model> FactorizationMachine::WithClassWeights(
    const std::vector<float>& weights) const {
  if (!loss_.of_classes) return nullptr;
  MILLRACE_CHECK(weights.size() == score_count());
  auto model = std::make_unique<FactorizationMachine>(*this);
  model->class_weights_ = weights;
  model->loss_.from_frequencies = false;
  return model;
}

BatchLoss FactorizationMachine::Compute(RowsView rows, const Scaler& scaler,
                                        std::span<const float> parameters,
                                        const EmbeddingBatch& embeddings, GradientSum* gradient,
                                        std::span<float> scores) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  MILLRACE_CHECK(gradient == nullptr || embeddings.gradient.size() == embeddings.values.size());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * score_count());
  const FmTerms terms(shape_.features, shape_.factors, row_l2_, scaler, parameters, embeddings);
  FmRow found;
  BatchLoss total;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = *rows[r];
    const float y = terms.Score(row, found);
    const std::span<float> row_scores =
        scores.empty() ? scores : scores.subspan(r * score_count(), score_count());
    const RowLoss loss = loss_.Of(y, row, scaler, row_scores);
    const float weight = class_weights_.empty() ? 1.0f : class_weights_[row.label];
    total.loss_sum += static_cast<double>(weight) * loss.loss;
    total.weight_sum += static_cast<double>(weight);
    if (gradient != nullptr) terms.AddGradient(row, found, weight * loss.slope, *gradient);
  }
  return total;
}

}  // namespace millrace
