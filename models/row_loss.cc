#include "models/row_loss.h"

#include <cmath>

#include "base/check.h"

namespace millrace {

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

}  // namespace millrace
