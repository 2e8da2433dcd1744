// The losses of models whose score is one number.
#pragma once

#include <cstdint>
#include <span>

#include "models/moments.h"

namespace millrace {

// What one training row leads to: its loss, and d loss / d y.
struct RowLoss {
  double loss = 0;
  float slope = 0;
};

// Two classes by the log odds y of class 1. `scores` is empty or takes P(class 0), P(class 1).
RowLoss LogLoss(float y, uint32_t label, std::span<float> scores);

// What is minimised where a number is estimated.
enum class ErrorLoss {
  kSquared,   // error^2 / 2
  kAbsolute,  // |error|
  kHuber,     // error^2 / 2 up to a limit, and from there on as steep as at the limit (Huber 1964)
};

// Of an estimate in units of the targets' deviation from their mean: y = mean + deviation *
// estimate. The loss is in the same units, so that no target's unit makes a step too long or too
// short. Huber's limit is `huber` times the mean absolute error so far. `scores` is empty or takes
// y as it is shown (TargetMoments::Shown).
RowLoss TargetLoss(ErrorLoss kind, float huber, const TargetMoments& before, float estimate,
                   float target, std::span<float> scores);

// The log odds of class 1, of so many rows of each of two classes (Moments::class_rows) and half a
// row more (Krichevsky, Trofimov 1981). 0 if none is known.
float FrequencyOdds(std::span<const uint64_t> class_rows);

// The loss of a model: of two classes, or of a number.
struct ScoreLoss {
  // Of Huber's limit: 95 % as efficient as the mean where errors are normal (Huber 1981), by their
  // mean absolute size instead of their deviation.
  static constexpr float kHuber = 1.7f;

  bool of_classes = true;
  // Of classes: scores are relative to FrequencyOdds. Class weights make others of the frequencies.
  bool from_frequencies = true;
  ErrorLoss error = ErrorLoss::kSquared;  // of a number
  float huber = kHuber;

  size_t score_count() const { return of_classes ? 2 : 1; }
  // Of the row's score y, which is relative to what the scaler knows of targets or classes.
  // `scores` takes score_count() values, or is empty.
  RowLoss Of(float y, const Row& row, const Scaler& scaler, std::span<float> scores) const {
    if (!of_classes) return TargetLoss(error, huber, scaler.target(), y, row.target, scores);
    const float odds = from_frequencies ? FrequencyOdds(scaler.class_rows()) : 0;
    return LogLoss(y + odds, row.label, scores);
  }
};

}  // namespace millrace
