// DeepFM against its definition in doubles, with loops over single units.
#include "models/deep_fm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "models/initial_weights.h"
#include "models/optimizer.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr ScoreLoss kLog{};
constexpr ScoreLoss kSquared{.of_classes = false};
constexpr size_t kNumeric = 2;
constexpr size_t kFeatures = 5;  // three of them hashed
constexpr size_t kFields = 3;
const std::vector<EmbeddingId> kIds = {3, 7, 1000, 1ull << 40, ~0ull};

// An id may stand in a row more than once.
const RandomRowShape kShape = {.numeric = kNumeric,
                               .hashed = kFeatures - kNumeric,
                               .hashed_in_row = 2,
                               .ids = kIds,
                               .ids_in_row = kFields};

struct Point {
  std::vector<double> parameters;
  std::vector<double> rows;  // of kIds, one after the other
};

class Subject {
 public:
  Subject(size_t factors_of_row, std::vector<size_t> units, const ScoreLoss& loss_of_row,
          std::mt19937& random)
      : factors(factors_of_row),
        hidden(std::move(units)),
        loss(loss_of_row),
        model({kFeatures, kNumeric, kFields, factors, hidden}, loss),
        gradient(model.parameter_count(), 1) {
    std::normal_distribution<float> normal(0, 0.5f);
    for (size_t i = 0; i < model.parameter_count(); ++i) parameters.push_back(normal(random));
    for (size_t i = 0; i < kIds.size() * (1 + factors); ++i) values.push_back(normal(random));
    row_gradient.resize(values.size());
  }

  BatchLoss Compute(RowsView rows) {
    scores.resize(rows.size() * model.score_count());
    return model.Compute(rows, Scaler::Identity(kNumeric), parameters, {kIds, values, row_gradient},
                         &gradient, scores);
  }

  Point point() const {
    return {{parameters.begin(), parameters.end()}, {values.begin(), values.end()}};
  }

  double ByTheBook(const Row& row, const Point& at) const {
    double y = at.parameters[kFeatures];
    std::vector<double> units(kFields * factors + kNumeric);
    for (size_t i = 0; i < kNumeric; ++i) {
      y += at.parameters[i] * row.numeric[i];
      units[kFields * factors + i] = row.numeric[i];
    }
    for (size_t i = 0; i < row.index.size(); ++i) {
      y += at.parameters[row.index[i]] * static_cast<double>(row.value[i]);
    }
    const auto value = [&](size_t i, size_t column) {
      const auto id = std::ranges::find(kIds, row.ids[i]) - kIds.begin();
      return at.rows[static_cast<size_t>(id) * (1 + factors) + column];
    };
    for (size_t i = 0; i < row.ids.size(); ++i) {
      y += value(i, 0);
      for (size_t k = 0; k < factors; ++k) {
        units[i * factors + k] = value(i, 1 + k);
        for (size_t j = i + 1; j < row.ids.size(); ++j) y += value(i, 1 + k) * value(j, 1 + k);
      }
    }
    const double* next = at.parameters.data() + kFeatures + 1;
    for (const size_t count : hidden) {
      const double* const weights = next;
      const double* const biases = weights + units.size() * count;
      std::vector<double> above(count);
      for (size_t unit = 0; unit < count; ++unit) {
        double z = biases[unit];
        for (size_t i = 0; i < units.size(); ++i) z += units[i] * weights[i * count + unit];
        above[unit] = std::max(0.0, z);
      }
      units = above;
      next = biases + count;
    }
    for (size_t unit = 0; unit < units.size(); ++unit) y += units[unit] * next[unit];
    return y;
  }

  double LossByTheBook(const std::vector<Row>& rows, const Point& at) const {
    double sum = 0;
    for (const Row& row : rows) {
      const double y = ByTheBook(row, at);
      const double error = y - static_cast<double>(row.target);
      sum += !loss.of_classes ? error * error / 2 : std::log(1 + std::exp(row.label == 1 ? -y : y));
    }
    return sum;
  }

  size_t factors;
  std::vector<size_t> hidden;
  const ScoreLoss& loss;
  DeepFm model;
  GradientSum gradient;
  std::vector<float> parameters;
  std::vector<float> values;
  std::vector<float> row_gradient;
  std::vector<float> scores;
};

TEST(DeepFm, ScoresAndLossEqualTheirDefinition) {
  std::mt19937 random(1);
  for (const ScoreLoss& loss : {kLog, kSquared}) {
    for (const std::vector<size_t>& hidden :
         std::vector<std::vector<size_t>>{{1}, {8}, {9, 4}, {3, 17, 2}}) {
      Subject subject(3, hidden, loss, random);
      const std::vector<Row> rows = RandomRows(kShape, 2, 37, random);
      const BatchLoss is = subject.Compute(Pointers(rows));
      EXPECT_NEAR(is.loss_sum, subject.LossByTheBook(rows, subject.point()), 2e-4);
      EXPECT_EQ(is.weight_sum, 37);
      for (size_t i = 0; i < rows.size(); ++i) {
        const double y = subject.ByTheBook(rows[i], subject.point());
        if (!loss.of_classes) {
          EXPECT_NEAR(subject.scores[i], y, 1e-5 * (1 + std::abs(y)));
        } else {
          EXPECT_NEAR(subject.scores[2 * i + 1], 1 / (1 + std::exp(-y)), 1e-6);
        }
      }
    }
  }
}

TEST(DeepFm, GradientEqualsFiniteDifferences) {
  std::mt19937 random(2);
  for (const ScoreLoss& loss : {kLog, kSquared}) {
    Subject subject(3, {9, 5}, loss, random);
    const std::vector<Row> rows = RandomRows(kShape, 2, 21, random);
    subject.Compute(Pointers(rows));
    const auto difference = [&](const std::function<double&(Point&)>& coordinate) {
      constexpr double kStep = 1e-6;
      Point moved = subject.point();
      coordinate(moved) += kStep;
      const double after = subject.LossByTheBook(rows, moved);
      coordinate(moved) -= 2 * kStep;
      return (after - subject.LossByTheBook(rows, moved)) / (2 * kStep);
    };
    for (size_t i = 0; i < subject.parameters.size(); ++i) {
      const double expected = difference([&](Point& p) -> double& { return p.parameters[i]; });
      EXPECT_NEAR(subject.gradient.values()[i], expected, 2e-4 * (1 + std::abs(expected)))
          << "parameter " << i;
    }
    for (size_t i = 0; i < subject.values.size(); ++i) {
      const double expected = difference([&](Point& p) -> double& { return p.rows[i]; });
      EXPECT_NEAR(subject.row_gradient[i], expected, 2e-4 * (1 + std::abs(expected)))
          << "value " << i;
    }
  }
}

TEST(DeepFm, ABatchInPartsGivesTheSameBytes) {
  std::mt19937 random(3);
  Subject whole(5, {11, 6}, kLog, random);
  Subject parts = whole;
  const std::vector<Row> rows = RandomRows(kShape, 2, 40, random);
  const std::vector<const Row*> view = Pointers(rows);
  whole.Compute(view);
  std::vector<float> scores;
  for (size_t begin = 0; begin < 40; begin += 5) {
    parts.Compute(std::span(view).subspan(begin, 5));
    scores.insert(scores.end(), parts.scores.begin(), parts.scores.end());
  }
  EXPECT_EQ(scores, whole.scores);
  EXPECT_EQ(whole.row_gradient, parts.row_gradient);
  EXPECT_TRUE(std::ranges::equal(whole.gradient.values(), parts.gradient.values()));
}

TEST(DeepFm, WithoutAGradientOnlyScoresAreMade) {
  std::mt19937 random(4);
  Subject subject(2, {4}, kLog, random);
  const std::vector<Row> rows = RandomRows(kShape, 2, 18, random);
  std::vector<float> scores(36);
  subject.model.Compute(Pointers(rows), Scaler::Identity(kNumeric), subject.parameters,
                        {kIds, subject.values}, nullptr, scores);
  subject.Compute(Pointers(rows));
  EXPECT_EQ(scores, subject.scores);
}

TEST(DeepFm, ItsNetworkIsNeitherPenalisedNorLinearAndABatchTouchesAllOfIt) {
  std::mt19937 random(5);
  Subject subject(2, {4}, kLog, random);
  EXPECT_EQ(subject.model.penalised_end(), kFeatures);
  EXPECT_EQ(subject.model.linear_end(), kFeatures + 1);
  EXPECT_EQ(subject.model.parameter_count(), kFeatures + 1 + (3 * 2 + 2) * 4 + 4 + 4);
  subject.Compute({});
  EXPECT_TRUE(subject.gradient.SortedBlocks().empty());
  Row row;
  row.numeric = {0, 0};
  subject.Compute(std::vector<const Row*>{&row});
  // The numeric columns, the bias and the network.
  EXPECT_EQ(subject.gradient.SortedBlocks().size(), 2 + 1 + 40u);
}

TEST(DeepFm, AtBirthItIsAFactorizationMachine) {
  std::mt19937 random(6);
  Subject subject(3, {6, 4}, kSquared, random);
  const std::vector<float> born =
      InitialWeights(subject.model.random_init_ranges(), 1, {0, subject.model.parameter_count()});
  std::copy(born.begin() + kFeatures + 1, born.end(), subject.parameters.begin() + kFeatures + 1);
  const FactorizationMachine machine({kFeatures, 3}, kSquared);
  const std::vector<Row> rows = RandomRows(kShape, 2, 10, random);
  subject.Compute(Pointers(rows));
  std::vector<float> scores(10);
  machine.Compute(Pointers(rows), Scaler::Identity(kNumeric),
                  std::span(subject.parameters).first(kFeatures + 1), {kIds, subject.values},
                  nullptr, scores);
  EXPECT_EQ(scores, subject.scores);
}

// Learns with one step per batch of 32 rows; the mean loss on the last 1000 rows, each before it
// was learnt from. The label is the parity of three of the row's id columns: what no sum over ids
// or pairs of them can say.
double LossOnParity(const Model& model) {
  const std::vector<EmbeddingId> ids = {0, 1, 2, 3, 4, 5};
  std::mt19937 random(7);
  std::vector<float> parameters =
      InitialWeights(model.random_init_ranges(), 1, {0, model.parameter_count()});
  std::vector<float> slots(parameters.size());
  std::vector<float> values;
  std::uniform_real_distribution<float> draw(-0.3f, 0.3f);
  for (size_t i = 0; i < ids.size() * model.row_width(); ++i) {
    values.push_back(i % model.row_width() == 0 ? 0 : draw(random));
  }
  std::vector<float> row_slots(values.size());
  const auto optimizer = Optimizer::Create({.learning_rate = 0.1});
  double last = 0;
  for (uint64_t step = 0; step < 400; ++step) {
    std::vector<Row> rows(32);
    for (Row& row : rows) {
      for (uint64_t column = 0; column < 3; ++column) {
        const uint64_t side = random() % 2;
        row.ids.push_back(2 * column + side);
        row.label ^= static_cast<uint32_t>(side);
      }
    }
    GradientSum gradient(parameters.size(), 1);
    std::vector<float> row_gradient(values.size());
    const BatchLoss loss = model.Compute(Pointers(rows), Scaler::Identity(0), parameters,
                                         {ids, values, row_gradient}, &gradient, {});
    if (step >= 369) last += loss.loss_sum / loss.weight_sum / 31;
    std::vector<float> mean(gradient.values().begin(), gradient.values().end());
    for (float& value : mean) value /= 32;
    for (float& value : row_gradient) value /= 32;
    optimizer->Step(step, mean, parameters, slots);
    optimizer->Step(step, row_gradient, values, row_slots);
  }
  return last;
}

TEST(DeepFm, LearnsAnInteractionOfThreeColumnsThatPairsCannotSay) {
  EXPECT_GT(LossOnParity(FactorizationMachine({0, 4}, kLog)), 0.6);
  EXPECT_LT(LossOnParity(DeepFm({0, 0, 3, 4, {16}}, kLog)), 0.05);
}

TEST(DeepFmDeathTest, MoreIdsThanFieldsAreAnErrorOfOurOwn) {
  std::mt19937 random(8);
  Subject subject(2, {4}, kLog, random);
  Row row;
  row.numeric = {0, 0};
  row.ids = {3, 3, 3, 3};
  EXPECT_DEATH(subject.Compute(std::vector<const Row*>{&row}), "broken invariant");
}

}  // namespace
}  // namespace millrace
