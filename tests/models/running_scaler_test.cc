#include "models/running_scaler.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

Moments MomentsOf(const std::vector<Row>& rows, size_t columns) {
  Moments moments(columns);
  for (const Row& row : rows) moments.Add(row);
  return moments;
}

TEST(RunningScalerTest, ScalesEachRowAsAScalerOfTheRowsBeforeIt) {
  std::mt19937 random(1);
  const std::vector<Row> before = RandomRows({.numeric = 3, .missing = 0.2}, 2, 5, random);
  const std::vector<Row> rows = RandomRows({.numeric = 3, .missing = 0.2}, 2, 20, random);
  Moments seen = MomentsOf(before, 3);
  RunningScaler scaler(seen, true);
  EXPECT_EQ(scaler.columns(), 3u);
  for (const Row& row : rows) {
    std::vector<float> features(3);
    scaler.ScaleRow(row.numeric, features);
    std::vector<float> expected(3);
    Scaler(seen).ScaleRow(row.numeric, expected);
    EXPECT_EQ(features, expected);
    scaler.ScaleRow(row.numeric, features);
    EXPECT_EQ(features, expected) << "a row that is only scaled counts for none";
    scaler.Add(row);
    seen.Add(row);
  }
}

TEST(RunningScalerTest, KnowsWhatWasAddedApartFromWhatWasThere) {
  std::mt19937 random(2);
  const std::vector<Row> rows = RandomRows({.numeric = 2, .missing = 0.2}, 2, 20, random);
  RunningScaler scaler(MomentsOf(RandomRows({.numeric = 2}, 2, 9, random), 2), true);
  EXPECT_EQ(scaler.added(), Moments(2));
  for (const Row& row : rows) scaler.Add(row);
  EXPECT_EQ(scaler.added(), MomentsOf(rows, 2));
}

TEST(RunningScalerTest, TheFirstRowOfAStreamHasNoFeatures) {
  RunningScaler scaler(Moments(1), true);
  std::vector<float> features(1);
  scaler.ScaleRow(std::vector<double>{1234}, features);
  EXPECT_EQ(features[0], 0);
}

TEST(RunningScalerTest, WithoutScalingValuesAreUsedAsTheyAreAndNoneCounts) {
  std::mt19937 random(3);
  RunningScaler scaler(MomentsOf(RandomRows({.numeric = 2}, 2, 9, random), 2), false);
  const Row row = {
      .numeric = {1234, std::numeric_limits<double>::quiet_NaN()}, .index = {}, .value = {}};
  std::vector<float> features(2);
  for (int i = 0; i < 2; ++i) {
    scaler.ScaleRow(row.numeric, features);
    EXPECT_EQ(features, (std::vector<float>{1234, 0}));
    scaler.Add(row);
  }
  EXPECT_EQ(scaler.added(), Moments(2));
}

}  // namespace
}  // namespace millrace
