#include "server/quality_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// Two classes, each as often as the other, each predicted with this probability of the right one.
EvaluationSums Rows(uint64_t rows, float right) {
  EvaluationSums sums;
  for (uint64_t i = 0; i < rows; ++i) {
    const std::array<float, 2> p = i % 2 == 0 ? std::array<float, 2>{right, 1 - right}
                                              : std::array<float, 2>{1 - right, right};
    sums.Add(static_cast<uint32_t>(i % 2), p);
  }
  return sums;
}

TEST(QualityReport, SaysThatAModelIsWorseThanGuessing) {
  QualityReport report(2);
  EXPECT_EQ(report.Tick(Rows(900, 0.1f), 10, 0), std::nullopt) << "too few rows to tell";
  EXPECT_THAT(report.Tick(Rows(1000, 0.1f), 10, 0),
              Optional(HasSubstr("always answering the freq")));
  EXPECT_EQ(report.Tick(Rows(5000, 0.1f), 10, 0), std::nullopt) << "it has been said";
  EXPECT_THAT(report.Tick(Rows(10000, 0.1f), 10, 0), Optional(HasSubstr("after 10000 rows")));
  EXPECT_THAT(report.AtEnd(Rows(10001, 0.1f), {}, 10, 0), Optional(HasSubstr("--learning-rate")));
}

TEST(QualityReport, SaysNothingOfAModelThatLearns) {
  QualityReport report(2);
  EXPECT_EQ(report.Tick(Rows(2000, 0.6f), 10, 0), std::nullopt);
  EXPECT_EQ(report.Tick(Rows(2000, 0.5f), 10, 0), std::nullopt) << "no better is not worse";
  EXPECT_EQ(report.AtEnd(Rows(2000, 0.6f), {}, 10, 0), std::nullopt);
}

TEST(QualityReport, SaysAtTheEndThatAModelHasBecomeWorse) {
  EXPECT_THAT(QualityReport(2).AtEnd(Rows(9000, 0.7f), Rows(1000, 0.2f), 10, 0),
              Optional(HasSubstr("on the newest 1000 rows")));
  EXPECT_EQ(QualityReport(2).AtEnd(Rows(9000, 0.7f), Rows(1000, 0.7f), 10, 0), std::nullopt);
}

TEST(QualityReport, CountsUpdatesThatWereNotFinite) {
  QualityReport report(2);
  EXPECT_THAT(report.Tick({}, 20, 1), Optional(HasSubstr("1 of 20 updates")));
  EXPECT_EQ(report.Tick({}, 30, 9), std::nullopt);
  EXPECT_THAT(report.Tick({}, 40, 10), Optional(HasSubstr("10 of 40 updates")));
  EXPECT_THAT(report.AtEnd({}, {}, 41, 11), Optional(HasSubstr("11 of 41 updates")));
}

TEST(QualityReport, SaysOfEachDriftOnceButNotOfThoseBeforeItLooked) {
  DriftDetector::Drift drift{
      .count = 1, .row = 2000, .found_at = 2100, .clock = 9, .before = 0.25, .after = 0.5};
  QualityReport other(2);
  EXPECT_EQ(other.TickDrift(drift), std::nullopt) << "another server has said it";
  QualityReport report(2);
  EXPECT_EQ(report.TickDrift({}), std::nullopt);
  EXPECT_THAT(report.TickDrift(drift),
              Optional(HasSubstr("log loss rose from 0.2500 to 0.5000 at row 2,000")));
  EXPECT_EQ(report.TickDrift(drift), std::nullopt);
  drift.count = 2;
  EXPECT_THAT(report.TickDrift(drift), Optional(HasSubstr("(change 2 so far)")));
}

TEST(QualityReport, ComparesARegressionWithTheMean) {
  EvaluationSums sums;
  for (int i = 0; i < 1000; ++i) sums.AddTarget(static_cast<float>(i % 10), -50);
  EXPECT_THAT(QualityReport(0).AtEnd(sums, {}, 1, 0),
              Optional(HasSubstr("always answering the mean")));
}

}  // namespace
}  // namespace millrace
