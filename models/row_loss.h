// The losses of models whose score is one number. Internal to models/.
#pragma once

#include <cstdint>
#include <span>

namespace millrace {

// What one training row leads to: its loss, and d loss / d y.
struct RowLoss {
  double loss = 0;
  float slope = 0;
};

// Two classes by the log odds y of class 1. `scores` is empty or takes P(class 0), P(class 1).
RowLoss LogLoss(float y, uint32_t label, std::span<float> scores);
// (y - target)^2 / 2. `scores` is empty or takes y.
RowLoss SquaredLoss(float y, float target, std::span<float> scores);

}  // namespace millrace
