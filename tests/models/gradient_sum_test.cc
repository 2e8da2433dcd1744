#include "models/gradient_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(GradientSum, ListsTouchedBlocksInOrderAndOnce) {
  GradientSum gradient(30, 3);
  for (size_t block : {7, 0, 9, 7}) gradient.Block(block)[1] += 1.0f;
  EXPECT_THAT(gradient.SortedBlocks(), ElementsAre(0, 7, 9));
  EXPECT_EQ(gradient.values()[7 * 3 + 1], 2.0f);
}

TEST(GradientSum, BehavesAsAMapFromBlocksToSumsHoweverFullItIs) {
  std::mt19937 random(1);
  constexpr size_t kBlocks = 1000;
  GradientSum gradient(kBlocks * 2, 2);
  for (size_t touches : {0, 1, 3, 50, 400, 5000, 2, 0}) {
    std::map<uint32_t, float> expected;
    for (size_t i = 0; i < touches; ++i) {
      const uint32_t block = static_cast<uint32_t>(random() % kBlocks);
      expected[block] += 1.0f;
      gradient.Block(block)[0] += 1.0f;
      gradient.Block(block)[1] -= 1.0f;
    }
    std::vector<uint32_t> blocks;
    for (const auto& [block, sum] : expected) blocks.push_back(block);
    EXPECT_THAT(gradient.SortedBlocks(), ElementsAreArray(blocks));
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const float sum = expected.contains(block) ? expected[block] : 0.0f;
      ASSERT_EQ(gradient.values()[block * 2], sum);
      ASSERT_EQ(gradient.values()[block * 2 + 1], -sum);
    }
    gradient.Clear();
  }
}

}  // namespace
}  // namespace millrace
