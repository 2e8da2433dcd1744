#include "models/target_scale.h"

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "models/lanes.h"
#include "models/portable_math.h"

namespace millrace {
namespace {

constexpr size_t kWidth = 8;  // of the vectors of powers

std::vector<float> LogFrequencies(const std::vector<uint64_t>& class_rows, size_t classes,
                                  const std::vector<float>& class_weights) {
  std::vector<double> rows;
  double total = 0;
  for (size_t k = 0; k < classes; ++k) {
    const double seen = k < class_rows.size() ? static_cast<double>(class_rows[k]) : 0;
    const double weight = class_weights.empty() ? 1 : static_cast<double>(class_weights[k]);
    rows.push_back(weight > 0 ? weight * (seen + 0.5) : 0.5);
    total += seen + 0.5;
  }
  std::vector<float> logs;
  for (const double of_class : rows) {
    logs.push_back(static_cast<float>(NaturalLog(of_class / total)));
  }
  return logs;
}

}  // namespace

TargetScale::TargetScale(const Scaler& scaler, const ScoreLoss& loss, size_t classes,
                         const std::vector<float>& class_weights)
    : scaler_(scaler),
      loss_(loss),
      class_weights_(class_weights),
      offsets_(loss.of_classes ? classes : 0),
      powers_((offsets_.size() + kWidth - 1) / kWidth * kWidth) {
  MILLRACE_CHECK(loss.of_classes == (classes > 0));
  MILLRACE_CHECK(class_weights.empty() || class_weights.size() == classes);
  if (loss.from_frequencies && classes > 0) {
    offsets_ = LogFrequencies(scaler.class_rows(), classes, class_weights);
  }
}

BatchLoss TargetScale::LossOf(const Row& row, std::span<const float> outputs,
                              std::span<float> scores, std::span<float> slopes) {
  MILLRACE_CHECK(outputs.size() == (loss_.of_classes ? offsets_.size() : 1));
  MILLRACE_CHECK(slopes.size() == outputs.size());
  MILLRACE_CHECK(scores.empty() || scores.size() == outputs.size());
  if (loss_.of_classes) return LogLossOf(row, outputs, scores, slopes);
  const RowLoss loss = loss_.Of(outputs[0], row, scaler_, scores);
  slopes[0] = loss.slope;
  return {loss.loss, 1};
}

// The largest output is subtracted, so that no power overflows and one of them is 1.
BatchLoss TargetScale::LogLossOf(const Row& row, std::span<const float> outputs,
                                 std::span<float> scores, std::span<float> slopes) {
  const size_t classes = offsets_.size();
  MILLRACE_CHECK(row.label < classes);
  for (size_t k = 0; k < classes; ++k) powers_[k] = offsets_[k] + outputs[k];
  float largest = powers_[0];
  for (size_t k = 1; k < classes; ++k) largest = largest < powers_[k] ? powers_[k] : largest;
  const double distance = static_cast<double>(largest) - static_cast<double>(powers_[row.label]);
  for (size_t k = 0; k < powers_.size(); k += kWidth) {
    const Lanes<kWidth> below = Load<kWidth>(powers_.data() + k) - largest;
    StoreFirst<kWidth, kWidth>(powers_.data() + k, ExpOfNegative<kWidth>(below));
  }
  float sum = 0;
  for (size_t k = 0; k < classes; ++k) sum += powers_[k];
  const float weight = class_weights_.empty() ? 1.0f : class_weights_[row.label];
  for (size_t k = 0; k < classes; ++k) {
    const float probability = powers_[k] / sum;
    if (!scores.empty()) scores[k] = probability;
    slopes[k] = weight * (probability - (k == row.label ? 1.0f : 0.0f));
  }
  const double wide_weight = static_cast<double>(weight);
  return {wide_weight * (distance + std::log(static_cast<double>(sum))), wide_weight};
}

}  // namespace millrace
