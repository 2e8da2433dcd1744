#include "models/target_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace millrace {
namespace {

const std::vector<float> kNoWeights;

Scaler Knowing(std::vector<uint64_t> class_rows, const TargetMoments& target = {}) {
  Scaler scaler = Scaler::Identity(0);
  scaler.set_class_rows(std::move(class_rows));
  scaler.set_target(target);
  return scaler;
}

std::vector<float> ScoresOf(TargetScale scale, const std::vector<float>& outputs) {
  std::vector<float> scores(outputs.size());
  std::vector<float> slopes(outputs.size());
  scale.LossOf(Row(), outputs, scores, slopes);
  return scores;
}

TEST(TargetScale, ZerosAreTheFrequenciesOfClasses) {
  const Scaler none = Knowing({});
  for (const float score : ScoresOf({none, {}, 3, kNoWeights}, {0, 0, 0})) {
    EXPECT_NEAR(score, 1.0 / 3, 1e-6);
  }
  const Scaler some = Knowing({1, 0, 3});
  const std::vector<float> scores = ScoresOf({some, {}, 3, kNoWeights}, {0, 0, 0});
  EXPECT_NEAR(scores[0], 1.5 / 5.5, 1e-6);
  EXPECT_NEAR(scores[1], 0.5 / 5.5, 1e-6);
  EXPECT_NEAR(scores[2], 3.5 / 5.5, 1e-6);
  for (const float score : ScoresOf({some, {.from_frequencies = false}, 3, kNoWeights}, {0, 0, 0}))
    EXPECT_NEAR(score, 1.0 / 3, 1e-6);
}

TEST(TargetScale, OfTwoClassesItIsTheLogOddsOfOneNumber) {
  const Scaler scaler = Knowing({30, 2});
  std::vector<float> scores(2);
  const RowLoss odds = ScoreLoss().Of(0.75f, Row(), scaler, scores);
  std::vector<float> slopes(2);
  TargetScale scale(scaler, {}, 2, kNoWeights);
  const BatchLoss loss = scale.LossOf(Row(), std::vector<float>{0, 0.75f}, {}, slopes);
  EXPECT_NEAR(loss.loss_sum, odds.loss, 1e-6);
  EXPECT_NEAR(slopes[1], odds.slope, 1e-6);
}

TEST(TargetScale, ClassWeightsCountInFrequencies) {
  const std::vector<float> weights = {1, 9};
  const Scaler scaler = Knowing({90, 10});
  EXPECT_NEAR(ScoresOf({scaler, {}, 2, weights}, {0, 0})[1], 9 * 10.5 / (9 * 10.5 + 90.5), 1e-6);
  const std::vector<float> without = {1, 0};
  EXPECT_NEAR(ScoresOf({scaler, {}, 2, without}, {0, 0})[1], 0.5 / 91, 1e-6);
}

TEST(TargetScale, ZeroIsTheMeanOfTargetsAndOneADeviation) {
  const ScoreLoss loss = {.of_classes = false};
  TargetMoments target;
  for (const float value : {1e5f, 1e5f + 40}) target.Add(value);
  const Scaler scaler = Knowing({}, target);
  EXPECT_EQ(ScoresOf({scaler, loss, 0, kNoWeights}, {0}), std::vector<float>{1e5f + 20});
  EXPECT_EQ(ScoresOf({scaler, loss, 0, kNoWeights}, {1}), std::vector<float>{1e5f + 40});
}

TEST(TargetScale, NoCountsCrashIt) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const std::vector<std::vector<uint64_t>> wrong = {{kMost, 0}, {kMost}, {1, 2, 3}};
  for (const std::vector<uint64_t>& rows : wrong) {
    const Scaler scaler = Knowing(rows);
    for (const float score : ScoresOf({scaler, {}, 2, kNoWeights}, {0, 0})) {
      EXPECT_TRUE(std::isfinite(score));
    }
  }
}

}  // namespace
}  // namespace millrace
