#include "topics/figures_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

Figures OfClasses(uint64_t rows, double log_loss) {
  Figures figures;
  figures.set_rows(rows);
  figures.set_log_loss(log_loss);
  figures.set_prior_log_loss(0.5);
  return figures;
}

Figures OfNumbers(uint64_t rows, double rmse) {
  Figures figures;
  figures.set_rows(rows);
  figures.set_has_rmse(true);
  figures.set_rmse(rmse);
  figures.set_prior_rmse(20);
  return figures;
}

TEST(FiguresVerdict, SaysWhatIsWorseThanWhatAndWhatToDo) {
  EXPECT_THAT(WorseThanPriorText(OfClasses(1'000, 0.75)),
              Optional(AllOf(HasSubstr("after 1000 rows"), HasSubstr("0.7500, theirs is 0.5000"),
                             HasSubstr("Lower --learning-rate"))));
  EXPECT_THAT(WorseThanPriorText(OfNumbers(1'000, 30)),
              Optional(AllOf(HasSubstr("is 30, the mean's is 20"), HasSubstr("--loss huber"))));
}

TEST(FiguresVerdict, IsSilentOfFewRowsAndOfWhatNoiseCosts) {
  EXPECT_FALSE(WorseThanPriorText(OfClasses(999, 0.75)));
  EXPECT_FALSE(WorseThanPriorText(OfClasses(1'000, 0.5049)));
  EXPECT_TRUE(WorseThanPriorText(OfClasses(1'000, 0.5051)));
  EXPECT_FALSE(WorseThanPriorText(OfNumbers(999, 30)));
  EXPECT_FALSE(WorseThanPriorText(OfNumbers(1'000, 20.09)));
  EXPECT_TRUE(WorseThanPriorText(OfNumbers(1'000, 20.11)));
}

TEST(FiguresVerdict, SaysWhatIsWorseLatelyWhereAllRowsHideIt) {
  EXPECT_THAT(
      WorseThanPriorText(OfNumbers(20'000, 10), OfNumbers(1'000, 30)),
      Optional(AllOf(HasSubstr("on the newest 1000 rows"), HasSubstr("is 30, the mean's is 20"),
                     HasSubstr("although of all rows it is not"), HasSubstr("--on-drift forget"))));
  EXPECT_THAT(WorseThanPriorText(OfClasses(20'000, 0.4), OfClasses(1'000, 0.6)),
              Optional(HasSubstr("0.6000, theirs is 0.5000")));
  EXPECT_FALSE(WorseThanPriorText(OfNumbers(20'000, 10), OfNumbers(1'000, 20.05)));
  EXPECT_FALSE(WorseThanPriorText(OfNumbers(20'000, 10), OfNumbers(999, 30)));
  EXPECT_FALSE(WorseThanPriorText(OfNumbers(20'000, 10), Figures()));
  EXPECT_THAT(WorseThanPriorText(OfNumbers(20'000, 30), OfNumbers(1'000, 30)),
              Optional(HasSubstr("after 20000 rows")));
}

TEST(FiguresVerdict, NamesTheArgumentsOfALearnerInPython) {
  EXPECT_THAT(WorseThanPriorText(OfClasses(1'000, 0.75), FiguresOf::kLearner),
              Optional(AllOf(HasSubstr("each row tested before it is learnt from"),
                             HasSubstr("scaling=False"), Not(HasSubstr("--")))));
  EXPECT_THAT(WorseThanPriorText(OfNumbers(1'000, 30), FiguresOf::kLearner),
              Optional(AllOf(HasSubstr("loss=\"huber\""), Not(HasSubstr("--")))));
}

TEST(FiguresVerdict, OfScoredRowsAdvisesNoSettingOfLearning) {
  const auto text = WorseThanPriorText(OfClasses(1'000, 0.75), FiguresOf::kScored);
  EXPECT_THAT(text, Optional(AllOf(HasSubstr("on these 1000 rows the model is worse"),
                                   HasSubstr("train a model on rows like these"),
                                   Not(HasSubstr("learnt from)")), Not(HasSubstr("Lower")))));
  EXPECT_THAT(WorseThanPriorText(OfNumbers(1'000, 30), FiguresOf::kScored),
              Optional(HasSubstr("the mean's is 20. If its job's")));
  EXPECT_FALSE(WorseThanPriorText(OfClasses(999, 0.75), FiguresOf::kScored));
}

TEST(FiguresVerdict, WhatIsNoNumberIsWorse) {
  EXPECT_TRUE(IsWorseThanPrior(OfClasses(10, std::nan(""))));
  EXPECT_TRUE(IsWorseThanPrior(OfNumbers(10, std::nan(""))));
}

}  // namespace
}  // namespace millrace
