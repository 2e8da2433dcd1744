// What knows the numeric columns together.
#include "models/newton_racer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace millrace {
namespace {

using Step = OnlineLearner::Step;

// Of a regression without noise: the target follows from the difference of two columns that are
// nearly the same, and from a third one.
class Targets {
 public:
  explicit Targets(unsigned seed) : random_(seed) {}

  std::vector<float> NextNumbers() {
    const float both = normal_(random_);
    return {both, both + 0.01f * normal_(random_), 5 * normal_(random_)};
  }
  static float TargetOf(const std::vector<float>& x) {
    return 100 * (x[1] - x[0]) + 0.5f * x[2] - 3;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

constexpr size_t kNumbers = 3;

std::vector<float> Learn(std::span<const float> before, Targets& targets, size_t rows) {
  NewtonRacer racer(kNumbers, 1, 0.1f, before);
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<float> x = targets.NextNumbers();
    racer.SetRow(x);
    Step step;
    step.newton_curvature = 1;
    step.newton_pull = Targets::TargetOf(x) - racer.Score(0);
    racer.Learn({&step, 1});
  }
  std::vector<float> sums(before.begin(), before.end());
  racer.AddChange(sums);
  return sums;
}

std::vector<float> NoSums() { return std::vector<float>(NewtonRacer::SumsFor(kNumbers, 1)); }

TEST(NewtonRacer, FindsTheDifferenceOfColumnsThatNearlySayTheSame) {
  Targets targets(1);
  const NewtonRacer racer(kNumbers, 1, 0.1f, Learn(NoSums(), targets, 30'000));
  const std::span<const double> weights = racer.Weights(0);
  EXPECT_NEAR(weights[1] - weights[0], 200, 20);  // (the ridge shrinks it)
  EXPECT_NEAR(weights[0] + weights[1], 0, 0.5);
  EXPECT_NEAR(weights[2], 0.5, 0.01);
  EXPECT_NEAR(weights[3], -3, 0.05);
}

TEST(NewtonRacer, SumsOfSeveralWorkersAddUpToThoseOfOne) {
  Targets first(2);
  Targets second(3);
  const std::vector<float> a = Learn(NoSums(), first, 100);
  const std::vector<float> b = Learn(NoSums(), second, 100);
  std::vector<float> together(a);
  for (size_t i = 0; i < together.size(); ++i) together[i] += b[i];
  Targets again(3);
  const std::vector<float> one = Learn(a, again, 100);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], together[i], 1e-4 * (1 + std::abs(one[i])));
  }
}

TEST(NewtonRacer, WeightsWithinABatchAreThoseOfTheSums) {
  Targets targets(4);
  const std::vector<float> before = Learn(NoSums(), targets, 50);
  NewtonRacer racer(kNumbers, 1, 0.1f, before);
  for (int i = 0; i < 40; ++i) {
    racer.SetRow(targets.NextNumbers());
    Step step;
    step.newton_curvature = 0.25f;
    step.newton_pull = 0.1f * static_cast<float>(i % 5);
    racer.Learn({&step, 1});
  }
  std::vector<float> sums = before;
  racer.AddChange(sums);
  const NewtonRacer next(kNumbers, 1, 0.1f, sums);
  for (size_t i = 0; i <= kNumbers; ++i) {
    EXPECT_NEAR(racer.Weights(0)[i], next.Weights(0)[i], 2e-3 * (1 + std::abs(next.Weights(0)[i])));
  }
}

TEST(NewtonRacer, EqualColumnsShareTheWeight) {
  const std::vector<float> sums = {1e4f, 1e4f, 1e4f, 0, 0, 1e4f, 2e4f, 2e4f, 0};  // A, then b
  const NewtonRacer racer(2, 1, 1, sums);
  EXPECT_NEAR(racer.Weights(0)[0], 1, 0.1);
  EXPECT_NEAR(racer.Weights(0)[1], 1, 0.1);
}

// The off-diagonal sum is larger than any rows can make it, as after many roundings.
TEST(NewtonRacer, ColumnsWhoseSumsContradictEachOtherShareTheWeight) {
  const std::vector<float> sums = {1e9f, 1.0001e9f, 1e9f, 0, 0, 1e9f, 2e9f, 2e9f, 0};
  const NewtonRacer racer(2, 1, 1, sums);
  EXPECT_NEAR(racer.Weights(0)[0], 1, 0.1);
  EXPECT_NEAR(racer.Weights(0)[1], 1, 0.1);
}

// The first rows of a job whose updates travel in 16 bits, which have fewer digits than the ridge
// needs (it diverged, and no update was a number).
TEST(NewtonRacer, SumsOfFewRowsInSixteenBitsGiveWeightsOfTheirSize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int job = 0; job < 300; ++job) {
    std::vector<float> sums(NewtonRacer::SumsFor(6, 1));
    for (int rows = 0; rows < 12; ++rows) {
      NewtonRacer racer(6, 1, 0.01f, sums);
      std::vector<float> x(6);
      for (float& value : x) value = normal(random);
      racer.SetRow(x);
      Step step;
      step.newton_curvature = 1;
      step.newton_pull = x[0] - racer.Score(0);
      racer.Learn({&step, 1});
      std::vector<float> change(sums.size());
      racer.AddChange(change);
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += std::bit_cast<float>(std::bit_cast<uint32_t>(change[i]) & 0xffff0000u);
      }
      const NewtonRacer next(6, 1, 0.01f, sums);
      for (const double weight : next.Weights(0)) {
        ASSERT_LT(std::abs(weight), 100) << job << " " << rows;
      }
    }
  }
}

TEST(NewtonRacer, SumsThatAreNoneHarmNobody) {
  for (const float made_up : {-1e6f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    std::vector<float> sums(NewtonRacer::SumsFor(kNumbers, 2), made_up);
    NewtonRacer racer(kNumbers, 2, 1, sums);
    racer.SetRow(std::vector<float>{1, 2, 3});
    EXPECT_TRUE(std::isfinite(racer.Score(0))) << made_up;
    std::vector<Step> steps(2);
    steps[0].newton_curvature = 1;
    steps[0].newton_pull = 1;
    racer.Learn(steps);
    EXPECT_TRUE(std::isfinite(racer.Score(0))) << made_up;
  }
}

TEST(NewtonRacer, ThereIsNoneWithoutNumbersOrOfTooMany) {
  EXPECT_EQ(NewtonRacer::SumsFor(0, 1), 0u);
  EXPECT_EQ(NewtonRacer::SumsFor(2, 1), 9u);
  EXPECT_EQ(NewtonRacer::SumsFor(2, 7), 63u);
  EXPECT_EQ(NewtonRacer::SumsFor(88, 1), 4094u);
  EXPECT_EQ(NewtonRacer::SumsFor(89, 1), 0u);
  EXPECT_EQ(NewtonRacer::SumsFor(26, 10), 4050u);
  EXPECT_EQ(NewtonRacer::SumsFor(27, 10), 0u);
  EXPECT_EQ(NewtonRacer::SumsFor(std::numeric_limits<uint32_t>::max(), 1), 0u);
}

}  // namespace
}  // namespace millrace
