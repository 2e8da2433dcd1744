#include "models/evaluation_window.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

// Rows of class 0, all predicted right or all wrong.
EvaluationSums Rows(uint64_t rows, bool right) {
  EvaluationSums sums;
  for (uint64_t row = 0; row < rows; ++row) {
    sums.Add(0, right ? std::vector<float>{0.75f, 0.25f} : std::vector<float>{0.25f, 0.75f});
  }
  return sums;
}

TEST(EvaluationWindow, ShowsTheLastThatIsFullAndNothingBefore) {
  EvaluationWindow window;
  window.Add(Rows(999, false), 999);
  EXPECT_EQ(window.last().rows, 0u);
  EXPECT_EQ(window.last_end(), 0u);
  window.Add(Rows(31, false), 1030);
  EXPECT_EQ(window.last().rows, 1030u) << "updates are not divided";
  EXPECT_EQ(window.last_end(), 1030u);
  EXPECT_EQ(window.open().rows, 0u);
  window.Add(Rows(900, true), 1930);
  EXPECT_EQ(ComputeFigures(window.last(), 2).accuracy, 0) << "the last full one";
  window.Add(Rows(100, true), 2030);
  EXPECT_EQ(ComputeFigures(window.last(), 2).accuracy, 1) << "no row of the one before";
  EXPECT_EQ(window.last_end(), 2030u);
}

TEST(EvaluationWindow, GrowsWithTheStreamUpToALimit) {
  const auto full_at = [](uint64_t all_rows, uint64_t rows) {
    EvaluationWindow window;
    EvaluationSums sums;
    sums.rows = rows;
    window.Add(sums, all_rows);
    return window.last().rows > 0;
  };
  EXPECT_FALSE(full_at(200'000, 9'999));
  EXPECT_TRUE(full_at(200'000, 10'000)) << "a twentieth";
  EXPECT_FALSE(full_at(10'000'000, 99'999));
  EXPECT_TRUE(full_at(10'000'000, 100'000));
}

TEST(EvaluationWindow, GoesOnFromWhatWasSaved) {
  EvaluationWindow whole;
  EvaluationWindow saved;
  for (uint64_t all = 300; all <= 6'000; all += 300) {
    whole.Add(Rows(300, all % 600 == 0), all);
    saved.Add(Rows(300, all % 600 == 0), all);
    EvaluationWindow restored;
    restored.Restore(saved.last(), saved.last_end(), saved.open());
    saved = restored;
    ASSERT_EQ(saved, whole);
  }
  EXPECT_EQ(whole.last_end(), 6'000u);
}

}  // namespace
}  // namespace millrace
