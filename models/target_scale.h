// Where the scores of a network begin, and the loss of a row from there. Internal to models/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/moments.h"
#include "models/row_loss.h"

namespace millrace {

// A model that learns by small steps would need many of them to get as far as the targets are: a
// rare class, or prices around 10^5. So its outputs z are taken from there:
//
//   classes      P(k) = softmax_k(log frequency_k + z_k); zeros are the classes' frequencies
//   regression   y = mean + deviation * z; 0 is the mean (TargetLoss)
//
// by what the scaler knows. A class of n among N rows, K classes, has the frequency
// (n + 1/2) / (N + K/2), the estimate of Krichevsky and Trofimov (1981), times its class weight; a
// class of weight 0 counts as if it had no rows. Without ScoreLoss::from_frequencies all classes
// are alike at zero. Not thread-safe.
class TargetScale {
 public:
  // `loss`: with of_classes, of two classes or more. `class_weights` is empty or has one factor per
  // class. All but `class_weights` and `scaler`, which outlive this, are copied.
  TargetScale(const Scaler& scaler, const ScoreLoss& loss, size_t classes,
              const std::vector<float>& class_weights);

  // The loss of a row by its outputs: of classes the weighted log loss, of a regression that of
  // `loss`. `scores` is empty or takes the probabilities, or y; `slopes` takes d loss / d z. Both
  // have the shape of `outputs`.
  BatchLoss LossOf(const Row& row, std::span<const float> outputs, std::span<float> scores,
                   std::span<float> slopes);

 private:
  BatchLoss LogLossOf(const Row& row, std::span<const float> outputs, std::span<float> scores,
                      std::span<float> slopes);

  const Scaler& scaler_;
  const ScoreLoss loss_;
  const std::vector<float>& class_weights_;
  std::vector<float> offsets_;  // of each class; empty: a regression
  std::vector<float> powers_;   // scratch: of e, up to whole vectors
};

}  // namespace millrace
