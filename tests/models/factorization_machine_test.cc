// Factorization machines against the definition: every pair of ids, in doubles.
#include "models/factorization_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr ScoreLoss kLog{};
constexpr ScoreLoss kSquared{.of_classes = false};
constexpr size_t kNumeric = 2;
constexpr size_t kHashed = 5;
constexpr size_t kFeatures = kNumeric + kHashed;

// Rows of up to five ids out of `ids`.
std::vector<Row> RandomRows(std::mt19937& random, const std::vector<EmbeddingId>& ids,
                            size_t count) {
  const RandomRowShape shape = {
      .numeric = kNumeric, .hashed = kHashed, .hashed_in_row = 3, .ids = ids, .ids_in_row = 5};
  return millrace::RandomRows(shape, 2, count, random);
}

// Dense parameters, then all embedding values.
struct Point {
  std::vector<double> parameters;
  std::map<EmbeddingId, std::vector<double>> rows;
};

// y = bias + linear parts + the inner product of the factors of each pair.
double ByTheBook(const Row& row, const Point& at) {
  double y = at.parameters[kFeatures];
  for (size_t i = 0; i < kNumeric; ++i) y += at.parameters[i] * row.numeric[i];
  for (size_t i = 0; i < row.index.size(); ++i) {
    y += at.parameters[row.index[i]] * static_cast<double>(row.value[i]);
  }
  for (size_t i = 0; i < row.ids.size(); ++i) {
    y += at.rows.at(row.ids[i])[0];
    for (size_t j = i + 1; j < row.ids.size(); ++j) {
      const std::vector<double>& a = at.rows.at(row.ids[i]);
      const std::vector<double>& b = at.rows.at(row.ids[j]);
      for (size_t k = 1; k < a.size(); ++k) y += a[k] * b[k];
    }
  }
  return y;
}

double LossByTheBook(const std::vector<Row>& rows, const Point& at, const ScoreLoss& loss) {
  double sum = 0;
  for (const Row& row : rows) {
    const double y = ByTheBook(row, at);
    const double error = y - static_cast<double>(row.target);
    sum += !loss.of_classes ? error * error / 2 : std::log(1 + std::exp(row.label == 1 ? -y : y));
  }
  return sum;
}

class Machine {
 public:
  Machine(size_t factors, const ScoreLoss& loss, std::mt19937& random)
      : model({kFeatures, factors}, loss), gradient(model.parameter_count(), 1) {
    std::normal_distribution<float> normal(0, 0.5f);
    for (size_t i = 0; i < model.parameter_count(); ++i) parameters.push_back(normal(random));
    for (size_t i = 0; i < ids.size() * model.row_width(); ++i) values.push_back(normal(random));
    row_gradient.resize(values.size());
  }

  BatchLoss Compute(RowsView rows) {
    scores.resize(rows.size() * model.score_count());
    return model.Compute(rows, Scaler::Identity(kNumeric), parameters, {ids, values, row_gradient},
                         &gradient, scores);
  }

  Point point() const {
    Point point;
    point.parameters.assign(parameters.begin(), parameters.end());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i * model.row_width());
      point.rows[ids[i]].assign(begin, begin + static_cast<ptrdiff_t>(model.row_width()));
    }
    return point;
  }

  const std::vector<EmbeddingId> ids = {3, 7, 1000, 1ull << 40, ~0ull};
  FactorizationMachine model;
  GradientSum gradient;
  std::vector<float> parameters;
  std::vector<float> values;
  std::vector<float> row_gradient;
  std::vector<float> scores;
};

TEST(FactorizationMachine, ScoresAndLossEqualTheirDefinition) {
  std::mt19937 random(1);
  for (const ScoreLoss& loss : {kLog, kSquared}) {
    for (const size_t factors : {0, 1, 4, 9}) {
      Machine machine(factors, loss, random);
      const std::vector<Row> rows = RandomRows(random, machine.ids, 30);
      const BatchLoss is = machine.Compute(Pointers(rows));
      EXPECT_NEAR(is.loss_sum, LossByTheBook(rows, machine.point(), loss), 1e-4);
      EXPECT_EQ(is.weight_sum, 30);
      for (size_t i = 0; i < rows.size(); ++i) {
        const double y = ByTheBook(rows[i], machine.point());
        if (!loss.of_classes) {
          EXPECT_NEAR(machine.scores[i], y, 1e-5);
        } else {
          EXPECT_NEAR(machine.scores[2 * i + 1], 1 / (1 + std::exp(-y)), 1e-6);
          EXPECT_NEAR(machine.scores[2 * i] + machine.scores[2 * i + 1], 1, 1e-6);
        }
      }
    }
  }
}

TEST(FactorizationMachine, GradientEqualsFiniteDifferences) {
  std::mt19937 random(2);
  for (const ScoreLoss& loss : {kLog, kSquared}) {
    Machine machine(4, loss, random);
    const std::vector<Row> rows = RandomRows(random, machine.ids, 12);
    machine.Compute(Pointers(rows));
    const auto difference = [&](const std::function<double&(Point&)>& coordinate) {
      constexpr double kStep = 1e-5;
      Point moved = machine.point();
      coordinate(moved) += kStep;
      const double after = LossByTheBook(rows, moved, loss);
      coordinate(moved) -= 2 * kStep;
      return (after - LossByTheBook(rows, moved, loss)) / (2 * kStep);
    };
    for (size_t i = 0; i < machine.parameters.size(); ++i) {
      EXPECT_NEAR(machine.gradient.values()[i],
                  difference([&](Point& p) -> double& { return p.parameters[i]; }), 1e-4);
    }
    for (size_t i = 0; i < machine.ids.size(); ++i) {
      for (size_t k = 0; k < machine.model.row_width(); ++k) {
        const double expected =
            difference([&](Point& p) -> double& { return p.rows[machine.ids[i]][k]; });
        EXPECT_NEAR(machine.row_gradient[i * machine.model.row_width() + k], expected, 1e-4)
            << "id " << i << ", column " << k;
      }
    }
  }
}

TEST(FactorizationMachine, TheRowPenaltyCountsEachTimeAnIdIsNamed) {
  std::mt19937 random(8);
  Machine machine(3, kLog, random);
  Machine penalised = machine;
  penalised.model = FactorizationMachine({kFeatures, 3}, kLog, 0.1f);
  const std::vector<Row> rows = RandomRows(random, machine.ids, 9);
  machine.Compute(Pointers(rows));
  penalised.Compute(Pointers(rows));
  for (size_t i = 0; i < machine.ids.size(); ++i) {
    long named = 0;
    for (const Row& row : rows) named += std::ranges::count(row.ids, machine.ids[i]);
    for (size_t at = i * 4; at < (i + 1) * 4; ++at) {
      EXPECT_NEAR(penalised.row_gradient[at] - machine.row_gradient[at],
                  0.1f * static_cast<float>(named) * machine.values[at], 1e-5);
    }
  }
}

TEST(FactorizationMachine, TwoIdsAndTheSquaredLossAreBiasedMatrixFactorization) {
  std::mt19937 random(3);
  Machine machine(3, kSquared, random);
  Row rating;
  rating.numeric = {0, 0};
  rating.ids = {7, 1000};
  machine.Compute(std::vector<const Row*>{&rating});
  const float* const user = machine.values.data() + 1 * 4;
  const float* const item = machine.values.data() + 2 * 4;
  const float mean = machine.parameters[kFeatures];
  EXPECT_NEAR(machine.scores[0],
              mean + user[0] + item[0] + user[1] * item[1] + user[2] * item[2] + user[3] * item[3],
              1e-5);
}

TEST(FactorizationMachine, EstimatesAreRelativeToTheTargetsSoFar) {
  std::mt19937 random(9);
  Machine machine(2, kSquared, random);
  const std::vector<Row> rows = RandomRows(random, machine.ids, 5);
  machine.Compute(Pointers(rows));
  Scaler scaler = Scaler::Identity(kNumeric);
  TargetMoments before;
  for (const float target : {1e5f - 30, 1e5f + 30}) before.Add(target);
  scaler.set_target(before);
  std::vector<float> scores(5);
  machine.model.Compute(Pointers(rows), scaler, machine.parameters, {machine.ids, machine.values},
                        nullptr, scores);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(scores[i], 1e5f + 30 * machine.scores[i], 0.02);
  }
}

TEST(FactorizationMachine, OfTwoClassesItBeginsAtTheFrequenciesSoFar) {
  std::mt19937 random(10);
  Machine machine(2, kLog, random);
  std::ranges::fill(machine.parameters, 0.0f);
  std::ranges::fill(machine.values, 0.0f);
  Scaler scaler = Scaler::Identity(kNumeric);
  scaler.set_class_rows({3, 1});
  const std::vector<Row> rows = RandomRows(random, machine.ids, 1);
  std::vector<float> scores(2);
  machine.model.Compute(Pointers(rows), scaler, machine.parameters, {machine.ids, machine.values},
                        nullptr, scores);
  EXPECT_NEAR(scores[1], 1.5 / 5, 1e-6) << "a quarter, and half a row of each class";
  EXPECT_EQ(FrequencyOdds({}), 0) << "nothing is known";
  machine.model.WithClassWeights({1, 1})->Compute(Pointers(rows), scaler, machine.parameters,
                                                  {machine.ids, machine.values}, nullptr, scores);
  EXPECT_EQ(scores[1], 0.5f) << "weights make others of the frequencies";
}

TEST(FactorizationMachine, ABatchInPartsGivesTheSameBytes) {
  std::mt19937 random(4);
  Machine whole(5, kLog, random);
  Machine parts = whole;
  const std::vector<Row> rows = RandomRows(random, whole.ids, 40);
  const std::vector<const Row*> view = Pointers(rows);
  whole.Compute(view);
  for (size_t begin = 0; begin < 40; begin += 8) parts.Compute(std::span(view).subspan(begin, 8));
  EXPECT_EQ(whole.row_gradient, parts.row_gradient);
  EXPECT_TRUE(std::ranges::equal(whole.gradient.values(), parts.gradient.values()));
}

TEST(FactorizationMachine, AScoreOfThousandsGivesAFiniteLossAndSlope) {
  std::mt19937 random(5);
  Machine machine(1, kLog, random);
  Row row;
  row.numeric = {0, 0};
  for (const float bias : {-5000.0f, 5000.0f}) {
    for (const uint32_t label : {0u, 1u}) {
      row.label = label;
      machine.parameters[kFeatures] = bias;
      const BatchLoss loss = machine.Compute(std::vector<const Row*>{&row});
      EXPECT_NEAR(loss.loss_sum, (bias > 0) == (label == 1) ? 0 : 5000, 1e-9);
      EXPECT_TRUE(std::isfinite(machine.gradient.values()[kFeatures]));
    }
  }
}

TEST(FactorizationMachine, WithoutAGradientOnlyScoresAreMade) {
  std::mt19937 random(6);
  Machine machine(2, kLog, random);
  const std::vector<Row> rows = RandomRows(random, machine.ids, 5);
  std::vector<float> scores(10);
  machine.model.Compute(Pointers(rows), Scaler::Identity(kNumeric), machine.parameters,
                        {machine.ids, machine.values}, nullptr, scores);
  machine.Compute(Pointers(rows));
  EXPECT_EQ(scores, machine.scores);
}

TEST(FactorizationMachineDeathTest, AnIdThatWasNotBroughtIsAnErrorOfOurOwn) {
  std::mt19937 random(7);
  Machine machine(2, kLog, random);
  Row row;
  row.numeric = {0, 0};
  row.ids = {8};
  EXPECT_DEATH(machine.Compute(std::vector<const Row*>{&row}), "broken invariant");
}

}  // namespace
}  // namespace millrace
