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

// See make_oracle.py.
std::vector<Case> ReadOracle() {
  std::ifstream in(MILLRACE_ORACLE_FOLDER "/evaluation.txt");
  std::vector<Case> cases;
  Case next;
  while (in >> next.name >> next.classes >> next.expected.rows) {
    EvaluationFigures& figures = next.expected;
    double auc = 0;
    in >> figures.accuracy >> figures.f1_macro >> figures.f1_weighted >> figures.log_loss >> auc >>
        figures.prior_accuracy >> figures.prior_log_loss;
    if (auc >= 0) figures.auc = auc;
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
