#include "models/row_loss.h"

#include <cmath>

#include "base/check.h"
#include "models/portable_math.h"

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

float FrequencyOdds(std::span<const uint64_t> class_rows) {
  const auto log_rows = [class_rows](size_t k) {
    const uint64_t rows = k < class_rows.size() ? class_rows[k] : 0;
    return NaturalLog(static_cast<double>(rows) + 0.5);
  };
  return static_cast<float>(log_rows(1) - log_rows(0));
}

RowLoss TargetLoss(ErrorLoss kind, float huber, const TargetMoments& before, float estimate,
                   float target, std::span<float> scores) {
  const double deviation = before.deviation();
  const double y = before.mean + deviation * static_cast<double>(estimate);
  if (!scores.empty()) scores[0] = static_cast<float>(before.Shown(y));
  const double error = (y - static_cast<double>(target)) / deviation;
  const double size = std::abs(error);
  const double sign = error < 0 ? -1 : 1;
  if (kind == ErrorLoss::kAbsolute) return {size, static_cast<float>(error == 0 ? 0 : sign)};
  const double limit = static_cast<double>(huber) * before.mean_error / deviation;
  // (Without an error so far there is no limit.)
  if (kind == ErrorLoss::kHuber && limit > 0 && size > limit) {
    return {limit * (size - limit / 2), static_cast<float>(sign * limit)};
  }
  return {error * error / 2, static_cast<float>(error)};
}

}  // namespace millrace
