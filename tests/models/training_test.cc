// The parts together, as a worker and a server use them: one pass in batches.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "models/evaluation.h"
#include "models/optimizer.h"
#include "models/softmax_regression.h"
#include "tests/models/digits.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr size_t kBatch = 32;

struct Trained {
  std::vector<float> parameters;
  std::vector<float> probabilities;  // of each row before it was trained on
  EvaluationSums sums;
};

// Test, then train; the scaling follows the rows seen so far.
Trained TrainOnePass(const std::vector<Row>& rows, size_t features, size_t classes,
                     const OptimizerOptions& options) {
  const SoftmaxRegression model(features, classes);
  const auto optimizer = Optimizer::Create(options);
  Trained trained;
  trained.parameters.resize(model.parameter_count());
  std::vector<float> slots(optimizer->slot_count() * model.parameter_count());
  GradientSum gradient(model.parameter_count(), classes);
  Moments moments(rows[0].numeric.size());
  const std::vector<const Row*> pointers = Pointers(rows);
  for (size_t begin = 0, step = 0; begin < rows.size(); begin += kBatch, ++step) {
    const RowsView batch = RowsView(pointers).subspan(begin, std::min(kBatch, rows.size() - begin));
    for (const Row* row : batch) moments.Add(*row);
    gradient.Clear();
    std::vector<float> scores(batch.size() * classes);
    const BatchLoss loss =
        model.Compute(batch, Scaler(moments), trained.parameters, &gradient, scores);
    for (size_t i = 0; i < batch.size(); ++i) {
      trained.sums.Add(batch[i]->label, std::span(scores).subspan(i * classes, classes));
    }
    trained.probabilities.insert(trained.probabilities.end(), scores.begin(), scores.end());
    std::vector<float> mean(gradient.values().begin(), gradient.values().end());
    for (float& value : mean) value /= static_cast<float>(loss.weight_sum);
    optimizer->Step(step, mean, trained.parameters, slots);
  }
  return trained;
}

// Two numeric columns that tell three classes apart, a missing value here and there.
std::vector<Row> NumericRows(size_t count) {
  std::mt19937 random(1);
  std::vector<Row> rows = RandomRows(
      {.numeric = 2, .hashed = 20, .hashed_in_row = 4, .missing = 0.05}, 3, count, random);
  for (Row& row : rows) {
    row.numeric[0] += row.label == 1 ? 3.0 : 0.0;
    row.numeric[1] += row.label == 2 ? 3.0 : 0.0;
  }
  return rows;
}

TEST(Training, UnitsOfTheColumnsDoNotMatter) {
  const std::vector<Row> rows = NumericRows(600);
  std::vector<Row> in_other_units = rows;
  for (Row& row : in_other_units) {
    for (double& value : row.numeric) value = 1e6 * value + 1e3;
  }
  const Trained one = TrainOnePass(rows, 22, 3, {});
  const Trained other = TrainOnePass(in_other_units, 22, 3, {});
  for (size_t i = 0; i < one.probabilities.size(); ++i) {
    ASSERT_NEAR(one.probabilities[i], other.probabilities[i], 1e-4) << i;
  }
  EXPECT_GT(ComputeFigures(one.sums, 3).accuracy, 0.7);
}

TEST(Training, HugeNumbersDoNotMakeItDiverge) {
  std::vector<Row> rows = NumericRows(2000);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (double& value : rows[i].numeric) value = 1e12 * value - 5e13;
    if (i % 100 == 50) rows[i].numeric[0] = 1e18;  // outliers
  }
  for (auto kind : {OptimizerOptions::Kind::kSgd, OptimizerOptions::Kind::kMomentum,
                    OptimizerOptions::Kind::kAdaGrad, OptimizerOptions::Kind::kAdam}) {
    const Trained trained = TrainOnePass(rows, 22, 3, {.kind = kind, .learning_rate = 0.05});
    for (float parameter : trained.parameters) ASSERT_LT(std::abs(parameter), 20.0f);
    const EvaluationFigures figures = ComputeFigures(trained.sums, 3);
    EXPECT_LT(figures.log_loss, figures.prior_log_loss) << "kind " << static_cast<int>(kind);
    EXPECT_GT(figures.accuracy, 0.5) << "kind " << static_cast<int>(kind);
  }
}

TEST(Training, ValuesOutOfAllRangeLeaveEveryWeightFinite) {
  std::vector<Row> rows = NumericRows(500);
  const double extremes[] = {1e300, -1e300, 1.7e308, INFINITY, -INFINITY, NAN, 5e-324};
  for (size_t i = 0; i < rows.size(); i += 3) rows[i].numeric[i % 2] = extremes[i % 7];
  for (float parameter : TrainOnePass(rows, 22, 3, {}).parameters) {
    ASSERT_TRUE(std::isfinite(parameter));
  }
}

TEST(Training, OnePassOverDigitsRecognisesMostOfThem) {
  const Trained trained = TrainOnePass(ReadDigits(), kDigitsPixels, kDigitsClasses, {});
  EXPECT_GT(ComputeFigures(trained.sums, kDigitsClasses).accuracy, 0.85);
}

TEST(Training, TheSameRowsGiveTheSameBytes) {
  const std::vector<Row> rows = NumericRows(500);
  EXPECT_EQ(TrainOnePass(rows, 22, 3, {}).parameters, TrainOnePass(rows, 22, 3, {}).parameters);
}

}  // namespace
}  // namespace millrace
