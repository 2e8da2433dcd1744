#include "metrics/learning_curve.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

CurvePoint PointAt(uint64_t rows) {
  CurvePoint point;
  point.rows_tested = rows;
  point.figures.set_accuracy(static_cast<double>(rows));
  return point;
}

double Accuracy(const Figures& figures) { return figures.accuracy(); }

TEST(LearningCurve, KeepsEveryPointOfAShortJob) {
  LearningCurve curve;
  for (uint64_t i = 0; i < 100; ++i) curve.Add(PointAt(i));
  EXPECT_EQ(curve.points().size(), 100u);
}

TEST(LearningCurve, StaysSmallAndEndsInTheNewestPointHoweverLongTheJob) {
  LearningCurve curve;
  for (uint64_t i = 0; i < 100'000; ++i) {
    curve.Add(PointAt(i));
    ASSERT_LE(curve.points().size(), LearningCurve::kMaxPoints);
    ASSERT_EQ(curve.points().back().rows_tested, i);
  }
  EXPECT_GE(curve.points().size(), LearningCurve::kMaxPoints / 4);
  for (size_t i = 1; i < curve.points().size(); ++i) {
    EXPECT_LT(curve.points()[i - 1].rows_tested, curve.points()[i].rows_tested);
  }
  EXPECT_LT(curve.points().front().rows_tested, 1000u);
}

TEST(LearningCurve, IsSampledEvenlyOverTheRows) {
  LearningCurve curve;
  for (uint64_t i = 0; i <= 100; ++i) curve.Add(PointAt(i));
  EXPECT_EQ(curve.Sampled(5, Accuracy), (std::vector<double>{0, 25, 50, 75, 100}));
}

TEST(LearningCurve, IsSampledAtNoMorePlacesThanItHasPoints) {
  LearningCurve curve;
  EXPECT_TRUE(curve.Sampled(5, Accuracy).empty());
  curve.Add(PointAt(7));
  EXPECT_EQ(curve.Sampled(5, Accuracy), (std::vector<double>{7}));
  curve.Add(PointAt(9));
  EXPECT_EQ(curve.Sampled(5, Accuracy), (std::vector<double>{7, 9}));
  EXPECT_TRUE(curve.Sampled(0, Accuracy).empty());
}

}  // namespace
}  // namespace millrace
