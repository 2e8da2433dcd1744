#include "models/softmax_regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> ClassWeights(size_t classes) {
  std::vector<float> weights;
  for (size_t k = 0; k < classes; ++k) weights.push_back(0.5f + static_cast<float>(k % 3));
  return weights;
}

std::vector<float> ToVector(std::span<const float> values) {
  return {values.begin(), values.end()};
}

bool HasSameBytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Result {
  BatchLoss loss;
  std::vector<float> gradient;
  std::vector<float> scores;
};

Result ComputeAll(const SoftmaxRegression& model, const std::vector<Row>& rows,
                  const Scaler& scaler, const std::vector<float>& parameters) {
  GradientSum gradient(model.parameter_count(), model.block_size());
  Result result;
  result.scores.resize(rows.size() * model.score_count());
  result.loss = model.Compute(Pointers(rows), scaler, parameters, &gradient, result.scores);
  result.gradient = ToVector(gradient.values());
  return result;
}

// The definition, in doubles, row by row.
struct Textbook {
  double loss_sum = 0;
  double weight_sum = 0;
  std::vector<double> gradient;
  std::vector<double> scores;
};

void AddToTextbook(const Row& row, const Scaler& scaler, size_t features, size_t classes,
                   const std::vector<double>& parameters, double weight, Textbook& result) {
  std::vector<std::pair<size_t, double>> x;
  for (size_t i = 0; i < row.numeric.size(); ++i)
    x.emplace_back(i, scaler.Scale(i, row.numeric[i]));
  for (size_t i = 0; i < row.index.size(); ++i) x.emplace_back(row.index[i], row.value[i]);
  x.emplace_back(features, 1.0);
  std::vector<double> logits(classes);
  for (const auto& [feature, value] : x) {
    for (size_t k = 0; k < classes; ++k) logits[k] += value * parameters[feature * classes + k];
  }
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  for (size_t k = 0; k < classes; ++k) {
    const double probability = std::exp(logits[k]) / sum;
    result.scores.push_back(probability);
    const double residual = weight * (probability - (k == row.label ? 1 : 0));
    for (const auto& [feature, value] : x) {
      result.gradient[feature * classes + k] += residual * value;
    }
  }
  result.loss_sum += weight * (std::log(sum) - logits[row.label]);
  result.weight_sum += weight;
}

Textbook ComputeByTheBook(size_t features, size_t classes, const std::vector<Row>& rows,
                          const Scaler& scaler, const std::vector<double>& parameters,
                          const std::vector<float>& class_weights) {
  Textbook result;
  result.gradient.resize((features + 1) * classes);
  for (const Row& row : rows) {
    const double weight = class_weights.empty() ? 1.0 : class_weights[row.label];
    AddToTextbook(row, scaler, features, classes, parameters, weight, result);
  }
  return result;
}

std::vector<double> ToDoubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Scaler ScalerOf(const std::vector<Row>& rows, size_t columns) {
  Moments moments(columns);
  for (const Row& row : rows) moments.Add(row);
  return Scaler(moments);
}

// The loss is a sum of float logits, too rough for small differences: they are taken of the
// definition in doubles, which the next test holds against the model's loss.
TEST(SoftmaxRegression, GradientEqualsFiniteDifferences) {
  std::mt19937 random(1);
  const RandomRowShape shape{.numeric = 3, .hashed = 9, .hashed_in_row = 5, .missing = 0.2};
  for (size_t classes : {2, 3, 5, 8, 10, 17}) {
    for (const std::vector<float>& weights : {std::vector<float>(), ClassWeights(classes)}) {
      const std::vector<Row> rows = RandomRows(shape, classes, 21, random);
      const Scaler scaler = ScalerOf(rows, shape.numeric);
      const SoftmaxRegression model(shape.features(), classes, weights);
      const std::vector<float> parameters = RandomFloats(model.parameter_count(), 0.5f, random);
      const Result result = ComputeAll(model, rows, scaler, parameters);
      for (size_t i = 0; i < parameters.size(); ++i) {
        const double step = 1e-5;
        std::vector<double> moved = ToDoubles(parameters);
        moved[i] += step;
        const double after =
            ComputeByTheBook(shape.features(), classes, rows, scaler, moved, weights).loss_sum;
        moved[i] -= 2 * step;
        const double before =
            ComputeByTheBook(shape.features(), classes, rows, scaler, moved, weights).loss_sum;
        ASSERT_NEAR(result.gradient[i], (after - before) / (2 * step), 2e-5)
            << "parameter " << i << " of " << classes << " classes";
      }
    }
  }
}

TEST(SoftmaxRegression, LossAndProbabilitiesEqualTheirDefinition) {
  std::mt19937 random(2);
  for (size_t classes = 2; classes <= 20; ++classes) {
    for (size_t count : {1, 4, 15, 16, 17, 40}) {
      const RandomRowShape shape{
          .numeric = classes % 4 * 3, .hashed = 30, .hashed_in_row = count, .missing = 0.1};
      const std::vector<Row> rows = RandomRows(shape, classes, count, random);
      const Scaler scaler = ScalerOf(rows, shape.numeric);
      const std::vector<float> weights = ClassWeights(classes);
      const SoftmaxRegression model(shape.features(), classes, weights);
      const std::vector<float> parameters = RandomFloats(model.parameter_count(), 1.0f, random);
      const Result result = ComputeAll(model, rows, scaler, parameters);
      const Textbook expected =
          ComputeByTheBook(shape.features(), classes, rows, scaler, ToDoubles(parameters), weights);
      EXPECT_NEAR(result.loss.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum);
      EXPECT_DOUBLE_EQ(result.loss.weight_sum, expected.weight_sum);
      for (size_t i = 0; i < expected.scores.size(); ++i) {
        ASSERT_NEAR(result.scores[i], expected.scores[i], 2e-6) << classes << " classes";
      }
      for (size_t i = 0; i < expected.gradient.size(); ++i) {
        ASSERT_NEAR(result.gradient[i], expected.gradient[i], 1e-4) << classes << " classes";
      }
    }
  }
}

TEST(SoftmaxRegression, TheSameInputGivesTheSameBytes) {
  std::mt19937 random(3);
  const RandomRowShape shape{.numeric = 7, .hashed = 100, .hashed_in_row = 20, .missing = 0.1};
  for (size_t classes : {2, 5, 10, 20}) {
    const std::vector<Row> rows = RandomRows(shape, classes, 77, random);
    const Scaler scaler = ScalerOf(rows, shape.numeric);
    const SoftmaxRegression model(shape.features(), classes, {});
    const std::vector<float> parameters = RandomFloats(model.parameter_count(), 0.5f, random);
    const Result once = ComputeAll(model, rows, scaler, parameters);
    const std::vector<Row> copies(rows.begin(), rows.end());  // elsewhere in memory
    const Result again = ComputeAll(model, copies, scaler, parameters);
    EXPECT_TRUE(HasSameBytes(once.gradient, again.gradient));
    EXPECT_TRUE(HasSameBytes(once.scores, again.scores));
    EXPECT_EQ(once.loss.loss_sum, again.loss.loss_sum);
  }
}

// A batch is a sum of its rows in their order, wherever it is cut.
TEST(SoftmaxRegression, ABatchInPartsGivesTheSameBytes) {
  std::mt19937 random(4);
  const RandomRowShape shape{.numeric = 6, .hashed = 60, .hashed_in_row = 15, .missing = 0.1};
  for (size_t classes : {2, 3, 5, 10, 20}) {
    const std::vector<Row> rows = RandomRows(shape, classes, 50, random);
    const Scaler scaler = ScalerOf(rows, shape.numeric);
    const SoftmaxRegression model(shape.features(), classes, ClassWeights(classes));
    const std::vector<float> parameters = RandomFloats(model.parameter_count(), 0.5f, random);
    const Result whole = ComputeAll(model, rows, scaler, parameters);
    const std::vector<const Row*> pointers = Pointers(rows);
    const RowsView view(pointers);
    GradientSum gradient(model.parameter_count(), classes);
    std::vector<float> scores(rows.size() * classes);
    const std::span<float> all_scores(scores);
    for (size_t begin = 0, size = 1; begin < rows.size(); begin += size, size += 3) {
      size = std::min(size, rows.size() - begin);
      model.Compute(view.subspan(begin, size), scaler, parameters, &gradient,
                    all_scores.subspan(begin * classes, size * classes));
    }
    EXPECT_TRUE(HasSameBytes(whole.gradient, ToVector(gradient.values())));
    EXPECT_TRUE(HasSameBytes(whole.scores, scores));
  }
}

TEST(SoftmaxRegression, ALogitOfThousandsGivesAFiniteLoss) {
  const SoftmaxRegression model(1, 3);
  const std::vector<Row> rows = {{.label = 1, .numeric = {}, .index = {0}, .value = {1.0f}}};
  const std::vector<float> parameters = {4000.0f, -4000.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  const Result result = ComputeAll(model, rows, Scaler::Identity(0), parameters);
  EXPECT_DOUBLE_EQ(result.loss.loss_sum, 8000.0);
  EXPECT_THAT(result.scores, ElementsAre(1.0f, 0.0f, 0.0f));
  EXPECT_THAT(result.gradient, ElementsAre(1.0f, -1.0f, 0.0f, 1.0f, -1.0f, 0.0f));
}

TEST(SoftmaxRegression, AMissingNumberAddsNothing) {
  std::mt19937 random(5);
  const SoftmaxRegression model(2, 4);
  const std::vector<float> parameters = RandomFloats(model.parameter_count(), 1.0f, random);
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> with = {{.label = 2, .numeric = {missing, 3.0}, .index = {}, .value = {}}};
  const std::vector<Row> without = {{.label = 2, .numeric = {0.0, 3.0}, .index = {}, .value = {}}};
  const Scaler scaler = Scaler::Identity(2);
  const Result result = ComputeAll(model, with, scaler, parameters);
  EXPECT_EQ(result.scores, ComputeAll(model, without, scaler, parameters).scores);
  EXPECT_THAT(std::vector<float>(result.gradient.begin(), result.gradient.begin() + 4),
              ElementsAre(0.0f, 0.0f, 0.0f, 0.0f));
}

TEST(SoftmaxRegression, TouchesTheFeaturesOfItsRowsTheNumericColumnsAndTheBias) {
  const std::vector<Row> rows = {
      {.label = 0, .numeric = {1.0, 2.0}, .index = {4, 9}, .value = {1.0f, -1.0f}},
      {.label = 1, .numeric = {0.5, 0.0}, .index = {3, 4}, .value = {1.0f, 2.0f}}};
  for (size_t classes : {5, 20}) {
    const SoftmaxRegression model(11, classes);
    const std::vector<float> parameters(model.parameter_count());
    GradientSum gradient(model.parameter_count(), classes);
    model.Compute(Pointers(rows), Scaler::Identity(2), parameters, &gradient, {});
    EXPECT_THAT(gradient.SortedBlocks(), ElementsAre(0, 1, 3, 4, 9, 11));
  }
}

TEST(SoftmaxRegression, ABatchWithoutRowsTouchesNothing) {
  const SoftmaxRegression model(3, 2);
  GradientSum gradient(model.parameter_count(), 2);
  const std::vector<float> parameters(model.parameter_count());
  const BatchLoss loss = model.Compute({}, Scaler::Identity(3), parameters, &gradient, {});
  EXPECT_EQ(loss.weight_sum, 0);
  EXPECT_TRUE(gradient.SortedBlocks().empty());
}

// A sum that left its block would be cleared by nobody.
TEST(SoftmaxRegression, NonFiniteInputStaysInTheBlocksOfItsRows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t classes = 2; classes <= 18; ++classes) {
    for (float poison : {nan, kInfinity, -kInfinity}) {
      const SoftmaxRegression model(6, classes);
      std::vector<float> parameters(model.parameter_count(), 0.5f);
      parameters[2 * classes] = poison;
      const std::vector<Row> rows = {
          {.label = 0, .numeric = {1e300}, .index = {2}, .value = {1.0f}},
          {.label = 1, .numeric = {-1e300}, .index = {2, 4}, .value = {poison, poison}}};
      GradientSum gradient(model.parameter_count(), classes);
      std::vector<float> scores(rows.size() * classes);
      model.Compute(Pointers(rows), Scaler::Identity(1), parameters, &gradient, scores);
      for (size_t block : {1, 3, 5}) {
        for (size_t k = 0; k < classes; ++k) {
          ASSERT_EQ(gradient.values()[block * classes + k], 0.0f) << classes << " classes";
        }
      }
      gradient.Clear();
      for (float value : gradient.values()) ASSERT_EQ(value, 0.0f);
    }
  }
}

TEST(SoftmaxRegression, ProbabilitiesAreExactToAFewUnitsInTheLastPlace) {
  const SoftmaxRegression model(1, 2);
  for (double logit = -87.0; logit < 87.0; logit += 0.0137) {
    const float weight = static_cast<float>(logit);
    const std::vector<float> parameters = {0.0f, weight, 0.0f, 0.0f};
    const std::vector<Row> rows = {{.label = 0, .numeric = {}, .index = {0}, .value = {1.0f}}};
    const Result result = ComputeAll(model, rows, Scaler::Identity(0), parameters);
    const double expected = 1 / (1 + std::exp(-static_cast<double>(weight)));
    ASSERT_NEAR(result.scores[1], expected, 4e-7 * expected) << logit;
  }
}

TEST(SoftmaxRegressionDeathTest, ARowThatDoesNotFitTheModelIsRefused) {
  const SoftmaxRegression model(3, 2);
  const std::vector<float> parameters(model.parameter_count());
  const auto compute = [&](const Row& row) {
    ComputeAll(model, {row}, Scaler::Identity(1), parameters);
  };
  EXPECT_DEATH(compute({.label = 2, .numeric = {0.0}, .index = {}, .value = {}}), "label");
  EXPECT_DEATH(compute({.label = 0, .numeric = {}, .index = {}, .value = {}}), "numeric");
  EXPECT_DEATH(compute({.label = 0, .numeric = {0.0}, .index = {3}, .value = {1.0f}}), "index");
  EXPECT_DEATH(compute({.label = 0, .numeric = {0.0}, .index = {1}, .value = {}}), "value");
}

}  // namespace
}  // namespace millrace
