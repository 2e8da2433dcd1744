#include "models/fm_terms.h"

#include "base/check.h"
#include "models/place_of.h"

namespace millrace {

FmTerms::FmTerms(size_t features, size_t factors, float row_l2, const Scaler& scaler,
                 std::span<const float> parameters, const EmbeddingBatch& embeddings)
    : features_(features),
      factors_(factors),
      row_l2_(row_l2),
      scaler_(scaler),
      parameters_(parameters),
      embeddings_(embeddings) {
  MILLRACE_CHECK(scaler.columns() <= features);
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * (1 + factors));
}

float FmTerms::Score(const Row& row, FmRow& found) const {
  MILLRACE_CHECK(row.numeric.size() == scaler_.columns());
  found.numeric.resize(scaler_.columns());
  scaler_.ScaleRow(row.numeric, found.numeric);
  float y = parameters_[features_];
  for (size_t i = 0; i < found.numeric.size(); ++i) y += parameters_[i] * found.numeric[i];
  for (size_t i = 0; i < row.index.size(); ++i) {
    MILLRACE_CHECK(row.index[i] < features_);
    y += parameters_[row.index[i]] * row.value[i];
  }
  found.places.clear();
  found.sums.assign(factors_, 0.0f);
  float squares = 0;
  for (const EmbeddingId id : row.ids) {
    const size_t place = PlaceOf(embeddings_.ids, id) * (1 + factors_);
    found.places.push_back(place);
    const float* const values = embeddings_.values.data() + place;
    y += values[0];
    for (size_t k = 0; k < factors_; ++k) {
      found.sums[k] += values[1 + k];
      squares += values[1 + k] * values[1 + k];
    }
  }
  float pairs = -squares;
  for (const float sum : found.sums) pairs += sum * sum;
  return y + 0.5f * pairs;
}

void FmTerms::AddGradient(const Row& row, const FmRow& found, float slope,
                          GradientSum& gradient) const {
  for (size_t i = 0; i < found.numeric.size(); ++i) *gradient.Block(i) += slope * found.numeric[i];
  for (size_t i = 0; i < row.index.size(); ++i) {
    *gradient.Block(row.index[i]) += slope * row.value[i];
  }
  *gradient.Block(features_) += slope;
  for (const size_t place : found.places) {
    const float* const values = embeddings_.values.data() + place;
    float* const slopes = embeddings_.gradient.data() + place;
    slopes[0] += slope + row_l2_ * values[0];
    for (size_t k = 0; k < factors_; ++k) {
      slopes[1 + k] += slope * (found.sums[k] - values[1 + k]) + row_l2_ * values[1 + k];
    }
  }
}

}  // namespace millrace
