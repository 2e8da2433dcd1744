#include "models/wide_softmax.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "models/feature_numbers.h"
#include "models/softmax_pass.h"

namespace millrace {
WideSoftmax::WideSoftmax(size_t numeric, size_t features, size_t classes,
                         std::vector<float> class_weights)
    : numeric_(numeric),
      features_(features),
      classes_(classes),
      class_weights_(std::move(class_weights)) {
  MILLRACE_CHECK(classes >= 2 && numeric <= features);
  MILLRACE_CHECK(class_weights_.empty() || class_weights_.size() == classes);
}

void WideSoftmax::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  ids.insert(ids.end(), row.index.begin(), row.index.end());
}

std::unique_ptr<Model> WideSoftmax::WithClassWeights(const std::vector<float>& weights) const {
  return std::make_unique<WideSoftmax>(numeric_, features_, classes_, weights);
}

BatchLoss WideSoftmax::Compute(RowsView rows, const Scaler& scaler,
                               std::span<const float> parameters, const EmbeddingBatch& embeddings,
                               GradientSum* gradient, std::span<float> scores) const {
  const size_t k = classes_;
  MILLRACE_CHECK(parameters.size() == parameter_count() && scaler.columns() == numeric_);
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * k);
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * k);
  MILLRACE_CHECK(gradient == nullptr || (gradient->values().size() == parameter_count() &&
                                         embeddings.gradient.size() == embeddings.values.size()));
  for (const Row* row : rows) {
    MILLRACE_CHECK(row->index.empty() || row->index.back() < features_);
  }
  const FeatureNumbers local = NumberRows(rows, {.features = true}, embeddings.ids, numeric_);
  const size_t hashed = local.from.size();
  std::vector<float> weights;
  weights.reserve((numeric_ + hashed + 1) * k);
  weights.assign(parameters.begin(), parameters.begin() + static_cast<ptrdiff_t>(numeric_ * k));
  for (const size_t at : local.from) {
    const float* const row = embeddings.values.data() + at * k;
    weights.insert(weights.end(), row, row + k);
  }
  weights.insert(weights.end(), parameters.end() - static_cast<ptrdiff_t>(k), parameters.end());
  GradientSum sums(gradient == nullptr ? 0 : weights.size(), k);
  const BatchLoss loss = ComputeSoftmax({.rows = rows,
                                         .places = local.places.data(),
                                         .scaler = &scaler,
                                         .parameters = weights.data(),
                                         .features = numeric_ + hashed,
                                         .classes = k,
                                         .class_weights = &class_weights_,
                                         .gradient = gradient == nullptr ? nullptr : &sums,
                                         .scores = scores.empty() ? nullptr : scores.data()});
  if (gradient == nullptr || rows.empty()) return loss;
  const float* sum = sums.values().data();
  const auto add = [&](float* to) {
    for (size_t i = 0; i < k; ++i) to[i] += *sum++;
  };
  for (size_t column = 0; column < numeric_; ++column) add(gradient->Block(column));
  for (const size_t at : local.from) add(embeddings.gradient.data() + at * k);
  add(gradient->Block(numeric_));
  return loss;
}

}  // namespace millrace
