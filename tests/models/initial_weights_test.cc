#include "models/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace {
namespace {

const std::vector<RandomInitRange> kRanges = {{10, 40, 0.5f}, {50, 5050, 2.0f}};

TEST(InitialWeights, AreZeroOutsideOfTheRandomRanges) {
  const std::vector<float> weights = InitialWeights(kRanges, 1, {0, 6000});
  ASSERT_EQ(weights.size(), 6000u);
  for (uint64_t key = 0; key < 6000; ++key) {
    if (key < 10 || (key >= 40 && key < 50) || key >= 5050) {
      EXPECT_EQ(weights[key], 0.0f) << key;
    } else {
      EXPECT_NE(weights[key], 0.0f) << key;
      EXPECT_LE(std::abs(weights[key]), key < 40 ? 0.5f : 2.0f) << key;
    }
  }
}

TEST(InitialWeights, AreEvenlyDistributedWithinTheLimit) {
  const std::vector<float> weights = InitialWeights(kRanges, 1, {50, 5050});
  double sum = 0;
  double squares = 0;
  for (float weight : weights) {
    sum += static_cast<double>(weight);
    squares += static_cast<double>(weight) * static_cast<double>(weight);
  }
  EXPECT_NEAR(sum / 5000, 0, 0.05);
  EXPECT_NEAR(squares / 5000, 4.0 / 3, 0.05);  // limit^2 / 3
}

TEST(InitialWeights, AKeyHasTheSameWeightInEveryRange) {
  const std::vector<float> all = InitialWeights(kRanges, 7, {0, 6000});
  std::vector<float> parts;
  for (const KeyRange range : {KeyRange{0, 17}, KeyRange{17, 45}, KeyRange{45, 45},
                               KeyRange{45, 3000}, KeyRange{3000, 6000}}) {
    const std::vector<float> part = InitialWeights(kRanges, 7, range);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, all);
}

TEST(InitialWeights, DependOnTheSeed) {
  EXPECT_NE(InitialWeights(kRanges, 1, {0, 6000}), InitialWeights(kRanges, 2, {0, 6000}));
}

}  // namespace
}  // namespace millrace
