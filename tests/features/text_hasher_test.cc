#include "features/text_hasher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::IsEmpty;

struct Features {
  std::vector<uint32_t> index;
  std::vector<float> value;
};

Features Hash(TextHasher& hasher, std::string_view text) {
  Features features;
  EXPECT_TRUE(hasher.Append(text, 0, &features.index, &features.value));
  return features;
}

// The numbers are those of scikit-learn.
TEST(TextHasher, SumsSignsAndDividesByTheNorm) {
  TextHasher hasher(1024);
  const Features features = Hash(hasher, "The cat saw the other cat");
  EXPECT_THAT(features.index, ElementsAre(88, 158, 387, 807));
  EXPECT_THAT(features.value,
              ElementsAre(FloatEq(-0.31622776601683794f), FloatEq(-0.6324555320336759f),
                          FloatEq(-0.31622776601683794f), FloatEq(0.6324555320336759f)));
}

TEST(TextHasher, LeavesOutFeaturesThatCancel) {
  TextHasher hasher(3);
  const Features features = Hash(hasher, "aa bb cc dd");
  EXPECT_THAT(features.index, ElementsAre(0, 2));
  EXPECT_THAT(features.value, ElementsAre(FloatEq(0.70710678f), FloatEq(-0.70710678f)));
}

TEST(TextHasher, TakesTheMagnitudeOfTheSmallestHashAsScikitLearnDoes) {
  for (auto [buckets, index] :
       {std::pair{1000u, 648u}, {1024u, 0u}, {7u, 2u}, {5000011u, 2478929u}}) {
    TextHasher hasher(buckets);
    const Features features = Hash(hasher, "ad1u66pi");
    EXPECT_THAT(features.index, ElementsAre(index));
    EXPECT_THAT(features.value, ElementsAre(-1.0f));
  }
}

TEST(TextHasher, HasNoFeaturesForATextWithoutWords) {
  TextHasher hasher(1024);
  for (const char* text : {"", " ", "a", "!?"}) EXPECT_THAT(Hash(hasher, text).index, IsEmpty());
}

TEST(TextHasher, AppendsAfterWhatIsThereAndShiftsTheIndexes) {
  TextHasher hasher(1024);
  Features features = {{7}, {2.5f}};
  ASSERT_TRUE(hasher.Append("cat", 1000, &features.index, &features.value));
  EXPECT_THAT(features.index, ElementsAre(7, 1807));
  EXPECT_THAT(features.value, ElementsAre(2.5f, 1.0f));
}

TEST(TextHasher, AppendsNothingForInvalidUtf8) {
  TextHasher hasher(1024);
  Features features;
  EXPECT_FALSE(hasher.Append("cat \xFF", 0, &features.index, &features.value));
  EXPECT_THAT(features.index, IsEmpty());
}

// Few buckets are counted in an array, many by sorting.
TEST(TextHasher, GivesUnitVectorsWithAscendingFeaturesForAnyNumberOfBuckets) {
  for (uint32_t buckets :
       {1u, 2u, 63u, 64u, 65u, 4095u, 4097u, 1u << 20, (1u << 20) + 1, UINT32_MAX}) {
    TextHasher hasher(buckets);
    std::string text;
    for (int i = 0; i < 500; ++i) {
      text += " word" + std::to_string(i * i % 977);
      const Features features = Hash(hasher, text);
      double squares = 0;
      for (size_t j = 0; j < features.index.size(); ++j) {
        ASSERT_LT(features.index[j], buckets);
        ASSERT_TRUE(j == 0 || features.index[j - 1] < features.index[j]);
        ASSERT_NE(features.value[j], 0);
        squares += double{features.value[j]} * features.value[j];
      }
      ASSERT_NEAR(squares, features.index.empty() ? 0 : 1, 1e-5);
    }
  }
}

}  // namespace
}  // namespace millrace
