#include "models/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace millrace {
namespace {

struct Case {
  std::string name;
  size_t classes = 0;
  EvaluationFigures expected;
  std::vector<uint32_t> labels;
  std::vector<std::vector<float>> probabilities;
};

void ReadConfusion(std::istream& in, size_t classes, EvaluationFigures& figures) {
  figures.classes.resize(classes);
  for (size_t label = 0; label < classes; ++label) {
    for (size_t predicted = 0; predicted < classes; ++predicted) {
      uint64_t rows = 0;
      in >> rows;
      if (rows > 0) figures.confusion[static_cast<uint32_t>(label * classes + predicted)] = rows;
      figures.classes[label].labelled += rows;
      figures.classes[predicted].predicted += rows;
      if (label == predicted) figures.classes[label].correct = rows;
    }
  }
}

// See make_oracle.py.
std::vector<Case> ReadOracle() {
  std::ifstream in(MILLRACE_ORACLE_FOLDER "/evaluation.txt");
  std::vector<Case> cases;
  Case next;
  while (in >> next.name >> next.classes >> next.expected.rows) {
    EvaluationFigures& figures = next.expected;
    double auc = 0;
    double pr_auc = 0;
    in >> figures.accuracy >> figures.f1_macro >> figures.f1_weighted >> figures.log_loss >> auc >>
        figures.prior_accuracy >> figures.prior_log_loss >> pr_auc >>
        figures.calibration_error.emplace();
    if (auc >= 0) figures.auc = auc;
    if (pr_auc >= 0) figures.pr_auc = pr_auc;
    ReadConfusion(in, next.classes, figures);
    for (uint64_t i = 0; i < figures.rows; ++i) {
      in >> next.labels.emplace_back();
      std::vector<float>& row = next.probabilities.emplace_back(next.classes);
      for (float& probability : row) {
        in >> probability;
        probability /= 4096;
      }
    }
    cases.push_back(std::move(next));
    next = Case();
  }
  return cases;
}

EvaluationSums SumsOf(const Case& oracle, size_t begin, size_t end) {
  EvaluationSums sums;
  for (size_t i = begin; i < end; ++i) sums.Add(oracle.labels[i], oracle.probabilities[i]);
  return sums;
}

void ExpectFigures(const EvaluationFigures& actual, const EvaluationFigures& expected) {
  EXPECT_EQ(actual.rows, expected.rows);
  EXPECT_NEAR(actual.accuracy, expected.accuracy, 1e-9);
  EXPECT_NEAR(actual.f1_macro, expected.f1_macro, 1e-9);
  EXPECT_NEAR(actual.f1_weighted, expected.f1_weighted, 1e-9);
  EXPECT_NEAR(actual.log_loss, expected.log_loss, 1e-9);
  EXPECT_EQ(actual.auc.has_value(), expected.auc.has_value());
  EXPECT_NEAR(actual.auc.value_or(-1), expected.auc.value_or(-1), 1e-9);
  EXPECT_NEAR(actual.prior_accuracy, expected.prior_accuracy, 1e-9);
  EXPECT_NEAR(actual.prior_log_loss, expected.prior_log_loss, 1e-9);
  EXPECT_EQ(actual.pr_auc.has_value(), expected.pr_auc.has_value());
  EXPECT_NEAR(actual.pr_auc.value_or(-1), expected.pr_auc.value_or(-1), 1e-9);
  // Probabilities are summed in parts of 2^-20.
  EXPECT_NEAR(actual.calibration_error.value_or(-1), expected.calibration_error.value_or(-1), 1e-6);
  EXPECT_EQ(actual.confusion, expected.confusion);
  ASSERT_EQ(actual.classes.size(), expected.classes.size());
  for (size_t i = 0; i < actual.classes.size(); ++i) {
    EXPECT_EQ(actual.classes[i].labelled, expected.classes[i].labelled) << i;
    EXPECT_EQ(actual.classes[i].predicted, expected.classes[i].predicted) << i;
    EXPECT_EQ(actual.classes[i].correct, expected.classes[i].correct) << i;
  }
}

TEST(Evaluation, FiguresEqualThoseOfScikitLearn) {
  const std::vector<Case> cases = ReadOracle();
  ASSERT_EQ(cases.size(), 7u);
  for (const Case& oracle : cases) {
    SCOPED_TRACE(oracle.name);
    const EvaluationSums sums = SumsOf(oracle, 0, oracle.labels.size());
    ExpectFigures(ComputeFigures(sums, oracle.classes), oracle.expected);
  }
}

TEST(Evaluation, MergedSumsGiveTheFiguresOfAllRows) {
  for (const Case& oracle : ReadOracle()) {
    SCOPED_TRACE(oracle.name);
    EvaluationSums sums;
    for (size_t begin = 0; begin < oracle.labels.size(); begin += 13) {
      sums.Merge(SumsOf(oracle, begin, std::min(begin + 13, oracle.labels.size())));
    }
    ExpectFigures(ComputeFigures(sums, oracle.classes), oracle.expected);
  }
}

TEST(Evaluation, OfARegressionItIsTheRootOfTheMeanSquare) {
  EvaluationSums sums;
  EvaluationSums other;
  sums.AddTarget(1, 2);
  sums.AddTarget(5, 2);
  other.AddTarget(3, std::nanf(""));  // counts as 0
  sums.Merge(other);
  const EvaluationFigures figures = ComputeFigures(sums, 0);
  EXPECT_EQ(figures.rows, 3u);
  EXPECT_DOUBLE_EQ(figures.rmse.value(), std::sqrt((1 + 9 + 9) / 3.0));
  EXPECT_DOUBLE_EQ(figures.prior_rmse, std::sqrt((4 + 4 + 0) / 3.0));
  EXPECT_FALSE(ComputeFigures(EvaluationSums(), 2).rmse);
  EXPECT_DOUBLE_EQ(figures.mae.value(), (1 + 3 + 3) / 3.0);
  EXPECT_DOUBLE_EQ(figures.r2.value(), 1 - 19.0 / 8.0);
}

TEST(Evaluation, ARowWithoutAPredictionIsARowAndNothingElse) {
  EvaluationSums sums;
  sums.AddUnpredicted();
  EXPECT_EQ(ComputeFigures(sums, 0).rmse, 0.0) << "nothing is known yet";
  EvaluationSums more;
  more.AddTarget(1, 2);
  more.AddTarget(5, 3);
  sums.Merge(more);
  const EvaluationFigures figures = ComputeFigures(sums, 0);
  EXPECT_EQ(figures.rows, 3u);
  EXPECT_DOUBLE_EQ(figures.rmse.value(), std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(figures.mae.value(), 1.5);
  EXPECT_DOUBLE_EQ(figures.prior_rmse, 2);
}

TEST(Evaluation, ARegressionOfEqualTargetsHasNoR2) {
  EvaluationSums sums;
  for (int row = 0; row < 1000; ++row) sums.AddTarget(0.1f, 0.2f);
  const EvaluationFigures figures = ComputeFigures(sums, 0);
  EXPECT_FALSE(figures.r2);
  EXPECT_NEAR(figures.mae.value(), 0.1, 1e-6);
}

TEST(Evaluation, TellsOfEachBinHowSureAndHowRightItIs) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.0f, 1.0f});
  const EvaluationFigures figures = ComputeFigures(sums, 2);
  ASSERT_EQ(figures.reliability.size(), 2u);
  EXPECT_EQ(figures.reliability[0].bin, 11u) << "0.75 lies in [11, 12) / 15";
  EXPECT_EQ(figures.reliability[0].rows, 2u);
  EXPECT_EQ(figures.reliability[0].confidence, 0.75);
  EXPECT_EQ(figures.reliability[0].accuracy, 0.5);
  EXPECT_EQ(figures.reliability[1].bin, 14u) << "the last bin has its upper end";
  EXPECT_EQ(figures.reliability[1].accuracy, 1.0);
  EXPECT_DOUBLE_EQ(figures.calibration_error.value(), 2.0 / 3 * 0.25);
}

TEST(Evaluation, ThePriorOfPrecisionAndRecallIsTheFrequencyOfClass1) {
  EvaluationSums sums;
  for (const uint32_t label : {1, 0, 0, 0}) sums.Add(label, std::vector<float>{0.5f, 0.5f});
  const EvaluationFigures figures = ComputeFigures(sums, 2);
  EXPECT_EQ(figures.prior_pr_auc, 0.25);
  EXPECT_EQ(figures.pr_auc.value(), 0.25) << "as good as the prior: all are ties";
}

TEST(Evaluation, ProbabilitiesAreSummedRoundedToTheNearestPart) {
  EvaluationSums sums;
  const float unit = 1.0f / (1 << 20);
  sums.Add(0, std::vector<float>{0.5f + 0.75f * unit, 0.25f});
  sums.Add(0, std::vector<float>{0.5f + 0.25f * unit, 0.25f});
  EXPECT_EQ(sums.calibration[7], (EvaluationSums::CalibrationBin{2, 2, (1 << 20) + 1}));
}

TEST(Evaluation, CalibrationOfProbabilitiesThatAreNotNumbersIsTheWorst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EvaluationSums sums;
  sums.Add(1, std::vector<float>{nan, nan});
  EXPECT_EQ(sums.calibration[0], (EvaluationSums::CalibrationBin{1, 0, 0}));
}

// Of an earlier version, which did not sum them.
TEST(Evaluation, WhatIsNotKnownOfAllRowsIsNotTold) {
  EvaluationSums old;
  old.Add(0, std::vector<float>{0.75f, 0.25f});
  old.calibration = {};
  EvaluationSums sums = old;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  EXPECT_FALSE(ComputeFigures(sums, 2).calibration_error);
  EXPECT_TRUE(ComputeFigures(sums, 2).reliability.empty());
  EvaluationSums numbers;
  numbers.AddTarget(1, 2);
  numbers.absolute_error = 0;
  numbers.absolute_rows = 0;
  numbers.AddTarget(1, 2);
  EXPECT_FALSE(ComputeFigures(numbers, 0).mae);
  EXPECT_TRUE(ComputeFigures(numbers, 0).rmse);
}

TEST(Evaluation, WithoutRowsEveryFigureIsZero) {
  const EvaluationFigures figures = ComputeFigures(EvaluationSums(), 2);
  EXPECT_EQ(figures.rows, 0u);
  EXPECT_EQ(figures.accuracy, 0);
  EXPECT_EQ(figures.f1_macro, 0);
  EXPECT_EQ(figures.log_loss, 0);
  EXPECT_FALSE(figures.auc.has_value());
}

TEST(Evaluation, TheFirstOfEqualProbabilitiesIsThePrediction) {
  EvaluationSums sums;
  sums.Add(1, std::vector<float>{0.2f, 0.4f, 0.4f});
  EXPECT_EQ(sums.cells, (std::map<uint32_t, uint64_t>{{1 * 3 + 1, 1}}));
}

TEST(Evaluation, ScoresAreCountedInBinsThatIncludeBothEnds) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{1.0f, 0.0f});
  sums.Add(1, std::vector<float>{0.0f, 1.0f});
  sums.Add(1, std::vector<float>{0.5f, 0.5f});
  EXPECT_EQ(sums.score_bins,
            (std::map<uint32_t, uint64_t>{{0, 1}, {2 * 4095 + 1, 1}, {2 * 2048 + 1, 1}}));
}

TEST(Evaluation, AnImpossibleLabelsLossIsBounded) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.0f, 1.0f});
  EXPECT_NEAR(sums.log_loss, -std::log(1e-15), 1e-6);
}

TEST(Evaluation, ProbabilitiesThatAreNotNumbersCountAsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EvaluationSums sums;
  sums.Add(1, std::vector<float>{nan, nan});
  sums.Add(0, std::vector<float>{0.9f, 0.1f});
  const EvaluationFigures figures = ComputeFigures(sums, 2);
  EXPECT_EQ(figures.accuracy, 0.5);
  EXPECT_NEAR(figures.log_loss, (-std::log(1e-15) - std::log(0.9)) / 2, 1e-6);
  EXPECT_EQ(sums.score_bins, (std::map<uint32_t, uint64_t>{{1, 1}, {2 * 409, 1}}))
      << "bin 0 of class 1, and the bin of 0.1 of class 0";
}

TEST(Evaluation, PredictionsThatAreNotFiniteCountAsZero) {
  for (const float prediction : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    EvaluationSums sums;
    sums.AddTarget(3, prediction);
    EXPECT_EQ(ComputeFigures(sums, 0).rmse.value(), 3);
  }
}

// The mean of the squares less the square of the mean rounds to less than 0 for some of these.
TEST(Evaluation, ConstantTargetsHaveAPriorErrorOfZeroAndNotOfNaN) {
  for (int i = 1; i <= 100; ++i) {
    EvaluationSums sums;
    for (int row = 0; row < 1000; ++row) sums.AddTarget(0.1f * static_cast<float>(i), 0);
    EXPECT_NEAR(ComputeFigures(sums, 0).prior_rmse, 0, 1e-5) << i;
  }
}

}  // namespace
}  // namespace millrace
