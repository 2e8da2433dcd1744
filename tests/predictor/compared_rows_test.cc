#include "predictor/compared_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace millrace {
namespace {

std::vector<float> Probabilities(float of_second) { return {1 - of_second, of_second}; }

Row Label(uint32_t of_class) {
  Row row;
  row.label = of_class;
  return row;
}

TEST(ComparedRows, CountBothModelsByTheLabelOfTheId) {
  ComparedRows rows(1 << 20);
  rows.Keep("a", Probabilities(0.25), Probabilities(0.5));
  rows.Keep("b", Probabilities(0.125), Probabilities(0.75));
  EXPECT_EQ(rows.waiting(), 2u);
  EXPECT_TRUE(rows.AddLabel("b", Label(1), 2));
  EXPECT_EQ(rows.waiting(), 1u);
  EXPECT_EQ(rows.model().rows, 1u);
  EXPECT_NEAR(rows.model().log_loss, -std::log(0.125), 1e-9);
  EXPECT_NEAR(rows.challenger().log_loss, -std::log(0.75), 1e-9);
}

TEST(ComparedRows, CountALabelOnce) {
  ComparedRows rows(1 << 20);
  rows.Keep("a", Probabilities(0.25), Probabilities(0.5));
  EXPECT_FALSE(rows.AddLabel("b", Label(1), 2));
  EXPECT_TRUE(rows.AddLabel("a", Label(1), 2));
  EXPECT_FALSE(rows.AddLabel("a", Label(1), 2));
  EXPECT_EQ(rows.model().rows, 1u);
  EXPECT_EQ(rows.unknown(), 2u);
}

TEST(ComparedRows, CountTheLastPredictionOfAnId) {
  ComparedRows rows(1 << 20);
  rows.Keep("a", Probabilities(0.25), Probabilities(0.5));
  rows.Keep("a", Probabilities(0.5), Probabilities(0.25));
  EXPECT_EQ(rows.waiting(), 1u);
  EXPECT_TRUE(rows.AddLabel("a", Label(1), 2));
  EXPECT_NEAR(rows.model().log_loss, -std::log(0.5), 1e-9);
}

TEST(ComparedRows, ForgetTheOldestWhenThereIsNoMoreRoom) {
  ComparedRows rows(100'000);
  for (int i = 0; i < 10'000; ++i) {
    rows.Keep("row " + std::to_string(i), Probabilities(0.25), Probabilities(0.5));
  }
  EXPECT_GT(rows.waiting(), 100u);
  EXPECT_LT(rows.waiting(), 1'000u);
  EXPECT_EQ(rows.forgotten(), 10'000 - rows.waiting());
  EXPECT_TRUE(rows.AddLabel("row 9999", Label(0), 2));
  EXPECT_TRUE(rows.AddLabel("row " + std::to_string(rows.forgotten()), Label(0), 2));
  EXPECT_FALSE(rows.AddLabel("row " + std::to_string(rows.forgotten() - 1), Label(0), 2));
  // What is let go of makes room.
  const uint64_t forgotten = rows.forgotten();
  rows.Keep("one", Probabilities(0.25), Probabilities(0.5));
  EXPECT_EQ(rows.forgotten(), forgotten);
}

TEST(ComparedRows, OfARegressionCountErrors) {
  ComparedRows rows(1 << 20);
  const std::vector<float> model = {3};
  const std::vector<float> challenger = {5};
  rows.Keep("a", model, challenger);
  Row row;
  row.target = 4.5;
  EXPECT_TRUE(rows.AddLabel("a", row, 0));
  EXPECT_DOUBLE_EQ(rows.model().absolute_error, 1.5);
  EXPECT_DOUBLE_EQ(rows.challenger().absolute_error, 0.5);
}

TEST(ComparedRows, BeginAnew) {
  ComparedRows rows(1 << 20);
  rows.Keep("a", Probabilities(0.25), Probabilities(0.5));
  rows.Keep("b", Probabilities(0.25), Probabilities(0.5));
  rows.AddLabel("a", Label(1), 2);
  rows.AddLabel("x", Label(1), 2);
  rows.Clear();
  EXPECT_EQ(rows.waiting(), 0u);
  EXPECT_EQ(rows.unknown(), 0u);
  EXPECT_EQ(rows.model(), EvaluationSums());
  EXPECT_EQ(rows.challenger(), EvaluationSums());
  EXPECT_FALSE(rows.AddLabel("b", Label(1), 2));
}

}  // namespace
}  // namespace millrace
