#include "metrics/evaluation_csv.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/metrics/points.h"

namespace millrace {
namespace {

CurvePoint SomePoint() {
  CurvePoint point;
  point.kind = CurvePoint::Kind::kHoldout;
  point.timestamp_ms = 1'700'000'000'123;
  point.clock = 12;
  point.rows_tested = 5'000;
  point.rows_trained = 4'800;
  point.train_loss = 0.25;
  point.figures = MakeFigures(1'000, 0.8, 0.5);
  point.figures.set_pr_auc(0.45);
  point.figures.set_calibration_error(0.02);
  return point;
}

TEST(EvaluationCsv, BeginsWithTheColumnsOfTheProgramsOwnLogs) {
  EXPECT_EQ(EvaluationCsvHeader().find("timestamp;partition;vectorClock;loss;fMeasure;accuracy;"),
            0u);
  EXPECT_EQ(EvaluationCsvLine(SomePoint()),
            "1700000000123;0;12;0.500000;0.750000;0.800000;holdout;5000;4800;1000;0.700000;"
            "0.700000;0.760000;0.550000;0.250000;;;;;0.450000;0.020000\n");
}

TEST(EvaluationCsv, ARegressionHasItsOwnFiguresAndNoZerosOfOthers) {
  CurvePoint point = SomePoint();
  point.figures = Figures();
  point.figures.set_rows(1'000);
  point.figures.set_has_rmse(true);
  point.figures.set_rmse(0.875);
  point.figures.set_prior_rmse(1.25);
  point.figures.set_mae(0.5);
  point.figures.set_r2(0.51);
  EXPECT_EQ(EvaluationCsvLine(point),
            "1700000000123;0;12;;;;holdout;5000;4800;1000;;;;;0.250000;0.875000;1.250000;"
            "0.500000;0.510000;;\n");
}

TEST(EvaluationCsv, SaysOfWhichRowsALineIs) {
  CurvePoint point = SomePoint();
  point.kind = CurvePoint::Kind::kWindow;
  EXPECT_NE(EvaluationCsvLine(point).find(";window;5000;4800;1000;"), std::string::npos);
}

TEST(EvaluationCsv, HasAsManyCellsAsTheHeaderWithoutAnAucToo) {
  CurvePoint point = SomePoint();
  point.figures.set_has_auc(false);
  const std::string header = EvaluationCsvHeader();
  const std::string line = EvaluationCsvLine(point);
  EXPECT_EQ(std::count(line.begin(), line.end(), ';'),
            std::count(header.begin(), header.end(), ';'));
  EXPECT_NE(line.find(";;"), std::string::npos);
}

}  // namespace
}  // namespace millrace
