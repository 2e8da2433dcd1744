#include "models/factorization_machine.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace millrace {
namespace {

// What one training row leads to: its loss, and d loss / d y.
struct RowLoss {
  double loss = 0;
  float slope = 0;
};

RowLoss LogLoss(float y, uint32_t label, std::span<float> scores) {
  MILLRACE_CHECK(label < 2);
  // By the side on which exp cannot overflow.
  const double e = std::exp(-std::abs(static_cast<double>(y)));
  const double likelier = 1 / (1 + e);
  const double one = y >= 0 ? likelier : 1 - likelier;
  const bool right = (y >= 0) == (label == 1);
  if (!scores.empty()) {
    scores[0] = static_cast<float>(y >= 0 ? e / (1 + e) : likelier);
    scores[1] = static_cast<float>(one);
  }
  const double loss = std::log1p(e) + (right ? 0 : std::abs(static_cast<double>(y)));
  return {loss, static_cast<float>(label == 1 ? one - 1 : one)};
}

RowLoss SquaredLoss(float y, float target, std::span<float> scores) {
  if (!scores.empty()) scores[0] = y;
  const float error = y - target;
  return {0.5 * static_cast<double>(error) * static_cast<double>(error), error};
}

}  // namespace

FactorizationMachine::FactorizationMachine(size_t features, size_t factors, Loss loss, float row_l2,
                                           float offset)
    : features_(features), factors_(factors), loss_(loss), row_l2_(row_l2), offset_(offset) {}

BatchLoss FactorizationMachine::Compute(RowsView rows, const Scaler& scaler,
                                        std::span<const float> parameters,
                                        const EmbeddingBatch& embeddings, GradientSum* gradient,
                                        std::span<float> scores) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * row_width());
  MILLRACE_CHECK(gradient == nullptr || embeddings.gradient.size() == embeddings.values.size());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * score_count());
  std::vector<float> numeric(scaler.columns());
  std::vector<float> sums(factors_);  // of the ids' factors
  std::vector<size_t> places;         // of the ids' rows in `embeddings`
  BatchLoss total;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = *rows[r];
    MILLRACE_CHECK(row.numeric.size() == numeric.size());
    scaler.ScaleRow(row.numeric, numeric);
    float y = offset_ + parameters[features_];
    for (size_t i = 0; i < numeric.size(); ++i) y += parameters[i] * numeric[i];
    for (size_t i = 0; i < row.index.size(); ++i) {
      MILLRACE_CHECK(row.index[i] < features_);
      y += parameters[row.index[i]] * row.value[i];
    }
    places.clear();
    std::ranges::fill(sums, 0.0f);
    float squares = 0;
    for (const EmbeddingId id : row.ids) {
      const auto found = std::ranges::lower_bound(embeddings.ids, id);
      MILLRACE_CHECK(found != embeddings.ids.end() && *found == id);
      const auto place = static_cast<size_t>(found - embeddings.ids.begin()) * row_width();
      places.push_back(place);
      const float* const values = embeddings.values.data() + place;
      y += values[0];
      for (size_t k = 0; k < factors_; ++k) {
        sums[k] += values[1 + k];
        squares += values[1 + k] * values[1 + k];
      }
    }
    float pairs = -squares;
    for (const float sum : sums) pairs += sum * sum;
    y += 0.5f * pairs;

    const std::span<float> row_scores =
        scores.empty() ? scores : scores.subspan(r * score_count(), score_count());
    const RowLoss loss = loss_ == Loss::kLog ? LogLoss(y, row.label, row_scores)
                                             : SquaredLoss(y, row.target, row_scores);
    total.loss_sum += loss.loss;
    total.weight_sum += 1;
    if (gradient == nullptr) continue;
    for (size_t i = 0; i < numeric.size(); ++i) *gradient->Block(i) += loss.slope * numeric[i];
    for (size_t i = 0; i < row.index.size(); ++i) {
      *gradient->Block(row.index[i]) += loss.slope * row.value[i];
    }
    *gradient->Block(features_) += loss.slope;
    for (const size_t place : places) {
      const float* const values = embeddings.values.data() + place;
      float* const slopes = embeddings.gradient.data() + place;
      slopes[0] += loss.slope + row_l2_ * values[0];
      for (size_t k = 0; k < factors_; ++k) {
        slopes[1 + k] += loss.slope * (sums[k] - values[1 + k]) + row_l2_ * values[1 + k];
      }
    }
  }
  return total;
}

}  // namespace millrace
