#include "models/local_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "models/softmax_regression.h"
#include "tests/models/digits.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using Kind = LocalSolverOptions::Kind;

double ObjectiveAt(const Model& model, RowsView rows, const Scaler& scaler,
                   const std::vector<float>& parameters, double l2) {
  const BatchLoss loss = model.Compute(rows, scaler, parameters, nullptr, {});
  double squares = 0;
  for (size_t i = 0; i < model.penalised_end(); ++i) {
    squares += static_cast<double>(parameters[i]) * static_cast<double>(parameters[i]);
  }
  return loss.loss_sum / loss.weight_sum + l2 / 2 * squares;
}

std::vector<float> Sum(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

std::vector<float> ToParameters(const DigitsOracle::Solution& solution) {
  std::vector<float> parameters((kDigitsPixels + 1) * kDigitsClasses);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] =
        static_cast<float>(solution.coefficients[i % kDigitsClasses][i / kDigitsClasses]);
  }
  return parameters;
}

// Less the mean over the classes, which softmax leaves open.
std::vector<float> Centred(std::vector<float> parameters, size_t classes) {
  for (size_t begin = 0; begin < parameters.size(); begin += classes) {
    const auto block = std::span(parameters).subspan(begin, classes);
    const float mean =
        std::accumulate(block.begin(), block.end(), 0.0f) / static_cast<float>(classes);
    for (float& parameter : block) parameter -= mean;
  }
  return parameters;
}

class LocalSolverOnDigits : public testing::Test {
 protected:
  LocalChange Solve(const Scaler& scaler, const LocalSolverOptions& options) const {
    const std::vector<float> zeros(model_.parameter_count());
    return SolveLocally(model_, Pointers(rows_), scaler, zeros, options);
  }
  Scaler ScalerOfRows() const {
    Moments moments(kDigitsPixels);
    for (const Row& row : rows_) moments.Add(row);
    return Scaler(moments);
  }

  const std::vector<Row> rows_ = ReadDigits();
  const DigitsOracle oracle_ = ReadDigitsOracle();
  const SoftmaxRegression model_{kDigitsPixels, kDigitsClasses};
};

TEST_F(LocalSolverOnDigits, LbfgsToConvergenceFindsScikitLearnsCoefficients) {
  ASSERT_EQ(rows_.size(), 1797u);
  const LocalChange result =
      Solve(ScalerOfRows(), {.kind = Kind::kLbfgs, .iterations = 1000, .l2 = oracle_.scaled.l2()});
  EXPECT_NEAR(result.start.loss_sum / result.start.weight_sum, std::log(10.0), 1e-6);
  const std::vector<float> found = Centred(result.change, kDigitsClasses);
  const std::vector<float> expected = ToParameters(oracle_.scaled);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3) << i;
}

// Raw pixels are far from zero, which makes a long flat valley along the intercepts: there a
// line search that sees losses of float logits stops early. So the coefficients are held against
// the model's gradient, and L-BFGS against the objective.
TEST_F(LocalSolverOnDigits, ScikitLearnsCoefficientsOfRawPixelsHaveNoGradient) {
  const std::vector<float> parameters = ToParameters(oracle_.raw);
  GradientSum gradient(model_.parameter_count(), kDigitsClasses);
  const BatchLoss loss =
      model_.Compute(Pointers(rows_), Scaler::Identity(kDigitsPixels), parameters, &gradient, {});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double penalty = i < model_.penalised_end() ? oracle_.raw.l2() * parameters[i] : 0.0;
    EXPECT_NEAR(gradient.values()[i] / loss.weight_sum + penalty, 0.0, 2e-6) << i;
  }
}

TEST_F(LocalSolverOnDigits, LbfgsOnRawPixelsComesNearScikitLearnsObjective) {
  const Scaler identity = Scaler::Identity(kDigitsPixels);
  const double l2 = oracle_.raw.l2();
  const LocalChange result = Solve(identity, {.kind = Kind::kLbfgs, .iterations = 1000, .l2 = l2});
  const double minimum =
      ObjectiveAt(model_, Pointers(rows_), identity, ToParameters(oracle_.raw), l2);
  EXPECT_NEAR(ObjectiveAt(model_, Pointers(rows_), identity, result.change, l2), minimum,
              2e-4 * minimum);
}

TEST(LocalSolver, EachFurtherIterationLowersTheObjective) {
  const std::vector<Row> rows = ReadDigits();
  const SoftmaxRegression model(kDigitsPixels, kDigitsClasses);
  const Scaler scaler = Scaler::Identity(kDigitsPixels);
  const std::vector<float> start(model.parameter_count());
  for (Kind kind : {Kind::kLbfgs, Kind::kSgd}) {
    LocalSolverOptions options{.kind = kind, .learning_rate = 0.001, .l2 = 0.01};
    double last = ObjectiveAt(model, Pointers(rows), scaler, start, options.l2);
    for (options.iterations = 1; options.iterations <= 4; ++options.iterations) {
      const LocalChange result = SolveLocally(model, Pointers(rows), scaler, start, options);
      const double next =
          ObjectiveAt(model, Pointers(rows), scaler, Sum(start, result.change), options.l2);
      EXPECT_LT(next, last) << options.iterations << " iterations";
      last = next;
    }
  }
}

TEST(LocalSolver, SgdStepsDownTheGradientOfThePenalisedMeanLoss) {
  std::mt19937 random(1);
  const RandomRowShape shape{.numeric = 2, .hashed = 5, .hashed_in_row = 3};
  const std::vector<Row> rows = RandomRows(shape, 3, 20, random);
  const SoftmaxRegression model(shape.features(), 3);
  const Scaler scaler = Scaler::Identity(2);
  const std::vector<float> start = RandomFloats(model.parameter_count(), 0.5f, random);
  const LocalSolverOptions options{
      .kind = Kind::kSgd, .iterations = 3, .learning_rate = 0.2, .l2 = 0.1};

  std::vector<float> expected = start;
  for (uint32_t i = 0; i < options.iterations; ++i) {
    GradientSum gradient(model.parameter_count(), 3);
    const BatchLoss loss = model.Compute(Pointers(rows), scaler, expected, &gradient, {});
    for (size_t j = 0; j < expected.size(); ++j) {
      const double penalty = j < model.penalised_end() ? options.l2 * expected[j] : 0.0;
      const double slope = gradient.values()[j] / loss.weight_sum + penalty;
      expected[j] -= static_cast<float>(options.learning_rate * slope);
    }
  }
  const LocalChange result = SolveLocally(model, Pointers(rows), scaler, start, options);
  const std::vector<float> reached = Sum(start, result.change);
  for (size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(reached[j], expected[j], 1e-6);
}

// Runs are compared by bytes: a step is computed in doubles, in this order.
TEST(LocalSolver, AStepOfSgdHasTheBytesOfItsFormula) {
  std::mt19937 random(3);
  const RandomRowShape shape{.numeric = 2, .hashed = 40, .hashed_in_row = 3};
  const std::vector<Row> rows = RandomRows(shape, 3, 7, random);
  const SoftmaxRegression model(shape.features(), 3);
  const Scaler scaler = Scaler::Identity(2);
  const std::vector<float> start = RandomFloats(model.parameter_count(), 0.5f, random);
  GradientSum gradient(model.parameter_count(), 3);
  const BatchLoss loss = model.Compute(Pointers(rows), scaler, start, &gradient, {});
  for (const double l2 : {0.0, 0.1}) {
    const LocalSolverOptions options{
        .kind = Kind::kSgd, .iterations = 1, .learning_rate = 0.3, .l2 = l2};
    const LocalChange result = SolveLocally(model, Pointers(rows), scaler, start, options);
    for (size_t j = 0; j < start.size(); ++j) {
      const double from = start[j];
      double slope = static_cast<double>(gradient.values()[j]) / loss.weight_sum;
      if (j < model.penalised_end()) slope += l2 * from;
      const double to = from - options.learning_rate * slope;
      EXPECT_EQ(result.change[j], static_cast<float>(to - from)) << "key " << j << ", l2 " << l2;
    }
  }
}

TEST(LocalSolver, NoIterationsOrNoRowsChangeNothing) {
  std::mt19937 random(2);
  const RandomRowShape shape{.numeric = 1, .hashed = 3, .hashed_in_row = 2};
  const std::vector<Row> rows = RandomRows(shape, 2, 5, random);
  const SoftmaxRegression model(shape.features(), 2);
  const std::vector<float> start(model.parameter_count(), 0.1f);
  const std::vector<float> zeros(model.parameter_count());
  for (Kind kind : {Kind::kLbfgs, Kind::kSgd}) {
    const LocalChange idle = SolveLocally(model, Pointers(rows), Scaler::Identity(1), start,
                                          {.kind = kind, .iterations = 0});
    EXPECT_EQ(idle.change, zeros);
    EXPECT_GT(idle.start.loss_sum, 0);
    const LocalChange empty = SolveLocally(model, {}, Scaler::Identity(1), start, {.kind = kind});
    EXPECT_EQ(empty.change, zeros);
  }
}

TEST(LocalSolver, AtTheMinimumNothingChanges) {
  // Opposite labels of equal rows: zero weights are the minimum.
  std::vector<Row> rows(2, {.label = 0, .numeric = {1.0}, .index = {}, .value = {}});
  rows[1].label = 1;
  const SoftmaxRegression model(1, 2);
  const std::vector<float> start(model.parameter_count());
  const LocalChange result =
      SolveLocally(model, Pointers(rows), Scaler::Identity(1), start, {.iterations = 5});
  EXPECT_EQ(result.change, start);
}

TEST(LocalSolver, NonFiniteWeightsGiveZeros) {
  const SoftmaxRegression model(1, 2);
  const std::vector<Row> rows = {{.label = 0, .numeric = {1.0}, .index = {}, .value = {}}};
  const std::vector<float> zeros(model.parameter_count());
  for (Kind kind : {Kind::kLbfgs, Kind::kSgd}) {
    std::vector<float> start = zeros;
    start[0] = std::numeric_limits<float>::quiet_NaN();
    const LocalChange result =
        SolveLocally(model, Pointers(rows), Scaler::Identity(1), start, {.kind = kind});
    EXPECT_EQ(result.change, zeros);
  }
}

TEST(LocalSolver, StepsThatLeaveTheRangeOfFloatsGiveZeros) {
  const SoftmaxRegression model(1, 2);
  const std::vector<Row> rows = {{.label = 0, .numeric = {1e30}, .index = {}, .value = {}}};
  const std::vector<float> zeros(model.parameter_count());
  for (uint32_t iterations : {1, 2, 5}) {  // at first too large a change, then NaN
    const LocalChange result =
        SolveLocally(model, Pointers(rows), Scaler::Identity(1), zeros,
                     {.kind = Kind::kSgd, .iterations = iterations, .learning_rate = 1e30});
    EXPECT_EQ(result.change, zeros);
  }
  const LocalChange by_lbfgs =
      SolveLocally(model, Pointers(rows), Scaler::Identity(1), zeros, {.kind = Kind::kLbfgs});
  for (float change : by_lbfgs.change) EXPECT_TRUE(std::isfinite(change));
}

TEST(LocalSolver, TheSameInputGivesTheSameBytes) {
  const std::vector<Row> rows = ReadDigits();
  const SoftmaxRegression model(kDigitsPixels, kDigitsClasses);
  const std::vector<float> start(model.parameter_count());
  const auto solve = [&] {
    return SolveLocally(model, Pointers(rows), Scaler::Identity(kDigitsPixels), start,
                        {.iterations = 10})
        .change;
  };
  EXPECT_EQ(solve(), solve());
}

}  // namespace
}  // namespace millrace
