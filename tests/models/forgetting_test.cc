#include "models/forgetting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "models/gradient_sum.h"
#include "models/online_learner.h"
#include "models/online_softmax.h"
#include "models/running_scaler.h"

namespace millrace {
namespace {

using ::testing::Each;

TEST(OnlineForgetting, TakesMostOfEachCurvatureAndOfTheRacersLosses) {
  const OnlineSoftmax model({.numeric = 1, .features = 2, .classes = 3});
  for (const bool race : {true, false}) {
    std::vector<float> parameters(model.parameter_count(), 64);
    OnlineForgetting forgetting = model.forgetting();
    forgetting.race = race;
    forgetting.Forget(0, parameters);
    // Two features and the bias, three columns each; then the losses, and the rows of each class;
    // then the sums of the number and the bias.
    constexpr size_t kBlock = 3 * OnlineRace::kValues;
    constexpr size_t kRace = 3 * kBlock;
    constexpr size_t kSums = kRace + kBlock;
    for (size_t key = 0; key < parameters.size(); ++key) {
      const bool is_curvature =
          key >= kSums || (key < kRace && key % OnlineRace::kValues == OnlineRace::kCurvature);
      const bool is_loss = race && key >= kRace && key < kRace + OnlineRace::kRacers;
      EXPECT_EQ(parameters[key], is_curvature ? 1 : is_loss ? 4 : 64) << key;
    }
  }
}

TEST(OnlineForgetting, AnyRangesOfKeysForgetWhatAllTogetherDo) {
  const OnlineForgetting forgetting{.weights_end = 32, .newton_begin = 43};
  std::mt19937_64 random(1);
  std::vector<float> whole(50);
  for (float& value : whole) value = static_cast<float>(random() % 1000);
  std::vector<float> parts = whole;
  forgetting.Forget(0, whole);
  for (size_t begin = 0; begin < parts.size();) {
    const size_t end = std::min<size_t>(begin + random() % 9, parts.size());
    forgetting.Forget(begin, std::span(parts).subspan(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(parts, whole);
}

TEST(OnlineForgetting, ARowThatHasMissedSomeHasTheBitsOfOneThatHasMissedNone) {
  for (const float value : {1.0f, 1e-3f, 12345.678f, 1e-36f, 3e-41f}) {
    for (int times = 1; times < 40; ++times) {
      std::vector<float> late(2 * OnlineRace::kValues, value);
      std::vector<float> early = late;
      OnlineForgetting::ForgetRow(times, late);
      for (int i = 0; i < times; ++i) OnlineForgetting::ForgetRow(1, early);
      EXPECT_EQ(late, early) << value << ", " << times;
    }
  }
}

TEST(OnlineForgetting, ARowMayHaveMissedAnyNumber) {
  for (const double times : {1e3, 1e18, std::numeric_limits<double>::max()}) {
    std::vector<float> row(OnlineRace::kValues, std::numeric_limits<float>::max());
    OnlineForgetting::ForgetRow(times, row);
    EXPECT_EQ(row.back(), 0);
    row.pop_back();
    EXPECT_THAT(row, Each(std::numeric_limits<float>::max()));
  }
}

// The loss of the rows after a change, summed: what each of many values of a column says is turned
// round.
double LossAfterAChange(bool forgets) {
  constexpr size_t kValues = 100;
  constexpr size_t kRows = 20'000;
  const OnlineSoftmax model({.features = kValues});
  std::vector<float> parameters(model.parameter_count());
  std::mt19937_64 random(2);
  Moments moments(0);
  double loss = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const auto value = static_cast<uint32_t>(random() % kValues);
    const bool is_usual = random() % 8 != 0;
    const bool has_changed = i >= kRows / 2;
    Row row;
    row.label = ((value % 2 == 0) == is_usual) != has_changed ? 1 : 0;
    row.index = {value};
    row.value = {1};
    RunningScaler scaler(moments, true);
    GradientSum change(parameters.size(), model.block_size());
    std::vector<float> scores(2);
    const Row* const rows[] = {&row};
    const BatchLoss of_row =
        model.Learn({.rows = rows, .trained_end = 1}, scaler, parameters, {}, change, scores);
    if (has_changed) loss += of_row.loss_sum;
    for (size_t key = 0; key < parameters.size(); ++key) parameters[key] += change.values()[key];
    if (forgets && i == kRows / 2 + 150) model.forgetting().Forget(0, parameters);
  }
  return loss;
}

TEST(OnlineForgetting, ALearnerThatForgetsIsBetterAfterAChange) {
  EXPECT_LT(LossAfterAChange(true), 0.95 * LossAfterAChange(false));
}

}  // namespace
}  // namespace millrace
