// The network model against its definition in doubles, with loops over single units.
#include "models/wide_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "models/initial_weights.h"
#include "models/optimizer.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr size_t kNumeric = 2;
constexpr size_t kFeatures = 5;  // three of them hashed
const std::vector<EmbeddingId> kIds = {1000, 1ull << 40, ~0ull};

WideNetwork::Shape ShapeOf(size_t classes, bool wide, std::vector<size_t> hidden) {
  return {.features = kFeatures,
          .numeric = kNumeric,
          .classes = classes,
          .wide = wide,
          .has_ids = true,
          .hidden = std::move(hidden)};
}

RandomRowShape RowsWith(std::vector<EmbeddingId> ids) {
  return {.numeric = kNumeric,
          .hashed = kFeatures - kNumeric,
          .hashed_in_row = 2,
          .ids = std::move(ids),
          .ids_in_row = 2};
}

// As if it had seen k + 1 rows of each class k, or targets with a mean of 3 and a deviation of 2.
void SetTargets(size_t classes, Scaler& scaler) {
  scaler.set_target({.count = 10, .mean = 3, .m2 = 40, .errors = 10, .mean_error = 1});
  std::vector<uint64_t> rows;
  for (uint64_t k = 0; k < classes; ++k) rows.push_back(k + 1);
  scaler.set_class_rows(rows);
}

struct Point {
  std::vector<double> parameters;
  std::vector<double> rows;  // of the ids, one after the other
};

class Subject {
 public:
  Subject(size_t classes_of_rows, bool is_wide, std::vector<size_t> units, std::mt19937& random,
          std::vector<float> class_weights = {})
      : classes(classes_of_rows),
        wide(is_wide),
        hidden(std::move(units)),
        weights_of_classes(std::move(class_weights)),
        model(ShapeOf(classes, wide, hidden), {}, weights_of_classes),
        gradient(model.parameter_count(), 1) {
    if (wide) ids = {2, 3, 4};
    ids.insert(ids.end(), kIds.begin(), kIds.end());
    parameters = RandomFloats(model.parameter_count(), 0.5f, random);
    values = RandomFloats(ids.size() * model.row_width(), 0.5f, random);
    row_gradient.resize(values.size());
  }

  size_t outputs() const { return std::max<size_t>(classes, 1); }

  BatchLoss Compute(RowsView rows, GradientSum* to) {
    scores.resize(rows.size() * outputs());
    Scaler scaler = Scaler::Identity(kNumeric);
    SetTargets(classes, scaler);
    const EmbeddingBatch batch{ids, values, to == nullptr ? std::span<float>() : row_gradient};
    return model.Compute(rows, scaler, parameters, batch, to, scores);
  }

  Point point() const {
    return {{parameters.begin(), parameters.end()}, {values.begin(), values.end()}};
  }

  // Of a feature or an id: its weights of the linear part and those of the first hidden layer.
  std::pair<const double*, const double*> WeightsOf(const Point& at, uint64_t feature,
                                                    bool is_id) const {
    const size_t k = outputs();
    if (is_id || wide) {
      const auto place = std::ranges::find(ids, feature) - ids.begin();
      const double* row = at.rows.data() + static_cast<size_t>(place) * model.row_width();
      return {row, row + k};
    }
    const size_t bag = (kFeatures + 1) * k + (feature - kNumeric) * hidden[0];
    return {at.parameters.data() + feature * k, at.parameters.data() + bag};
  }

  std::vector<double> OutputsByTheBook(const Row& row, const Point& at) const {
    const size_t k = outputs();
    const size_t dense = wide ? kNumeric : kFeatures;
    const double* const bias = at.parameters.data() + dense * k;
    std::vector<double> z(bias, bias + k);
    std::vector<double> added(hidden[0]);
    const auto add = [&](uint64_t feature, bool is_id, double x) {
      const auto [linear, first] = WeightsOf(at, feature, is_id);
      for (size_t i = 0; i < k; ++i) z[i] += x * linear[i];
      for (size_t i = 0; i < hidden[0]; ++i) added[i] += x * first[i];
    };
    for (size_t i = 0; i < row.index.size(); ++i) {
      add(row.index[i], false, static_cast<double>(row.value[i]));
    }
    for (const EmbeddingId id : row.ids) add(id, true, 1);
    for (size_t i = 0; i < kNumeric; ++i) {
      for (size_t j = 0; j < k; ++j) z[j] += row.numeric[i] * at.parameters[i * k + j];
    }
    const double* next = bias + k + (wide ? 0 : (kFeatures - kNumeric) * hidden[0]);
    std::vector<double> units(row.numeric);
    for (size_t layer = 0; layer < hidden.size(); ++layer) {
      const size_t count = hidden[layer];
      const double* const biases = next + units.size() * count;
      std::vector<double> above(count);
      for (size_t unit = 0; unit < count; ++unit) {
        double sum = biases[unit] + (layer == 0 ? added[unit] : 0);
        for (size_t i = 0; i < units.size(); ++i) sum += units[i] * next[i * count + unit];
        above[unit] = std::max(0.0, sum);
      }
      units = above;
      next = biases + count;
    }
    for (size_t unit = 0; unit < units.size(); ++unit) {
      for (size_t j = 0; j < k; ++j) z[j] += units[unit] * next[unit * k + j];
    }
    return z;
  }

  // The probabilities of a row, or its estimate.
  std::vector<double> ScoresByTheBook(const Row& row, const Point& at) const {
    std::vector<double> z = OutputsByTheBook(row, at);
    if (classes == 0) return {3 + 2 * z[0]};
    double sum = 0;
    for (size_t k = 0; k < classes; ++k) {
      const double weight =
          weights_of_classes.empty() ? 1 : static_cast<double>(weights_of_classes[k]);
      z[k] = std::exp(z[k]) * weight * (static_cast<double>(k) + 1.5);
      sum += z[k];
    }
    for (double& value : z) value /= sum;
    return z;
  }

  // What the gradient is of. Of a regression the error counts in deviations.
  double ObjectiveByTheBook(const std::vector<Row>& rows, const Point& at) const {
    double sum = 0;
    for (const Row& row : rows) {
      const std::vector<double> scores_of_row = ScoresByTheBook(row, at);
      if (classes == 0) {
        const double error = (scores_of_row[0] - static_cast<double>(row.target)) / 2;
        sum += error * error / 2;
        continue;
      }
      const double weight =
          weights_of_classes.empty() ? 1 : static_cast<double>(weights_of_classes[row.label]);
      sum -= weight * std::log(scores_of_row[row.label]);
    }
    return sum;
  }

  size_t classes;
  bool wide;
  std::vector<size_t> hidden;
  std::vector<float> weights_of_classes;
  WideNetwork model;
  GradientSum gradient;
  std::vector<EmbeddingId> ids;
  std::vector<float> parameters;
  std::vector<float> values;
  std::vector<float> row_gradient;
  std::vector<float> scores;
};

TEST(WideNetwork, ScoresEqualTheirDefinition) {
  std::mt19937 random(1);
  for (const size_t classes : {0, 2, 3, 11}) {
    for (const bool wide : {false, true}) {
      Subject subject(classes, wide, {9, 4}, random);
      const std::vector<Row> rows =
          RandomRows(RowsWith(kIds), std::max<size_t>(classes, 1), 37, random);
      subject.Compute(Pointers(rows), nullptr);
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<double> expected = subject.ScoresByTheBook(rows[r], subject.point());
        for (size_t k = 0; k < expected.size(); ++k) {
          EXPECT_NEAR(subject.scores[r * expected.size() + k], expected[k],
                      1e-5 * (1 + std::abs(expected[k])));
        }
      }
    }
  }
}

TEST(WideNetwork, GradientEqualsFiniteDifferences) {
  std::mt19937 random(2);
  for (const size_t classes : {0, 2, 5}) {
    for (const bool wide : {false, true}) {
      const std::vector<float> weights =
          classes == 5 ? std::vector<float>{1, 2, 0.5f, 1, 3} : std::vector<float>{};
      Subject subject(classes, wide, {7, 5}, random, weights);
      const std::vector<Row> rows =
          RandomRows(RowsWith(kIds), std::max<size_t>(classes, 1), 21, random);
      GradientSum gradient(subject.parameters.size(), 1);
      subject.Compute(Pointers(rows), &gradient);
      const std::span<const float> sums = gradient.values();
      const auto difference = [&](const std::function<double&(Point&)>& coordinate) {
        constexpr double kStep = 1e-6;
        Point moved = subject.point();
        coordinate(moved) += kStep;
        const double after = subject.ObjectiveByTheBook(rows, moved);
        coordinate(moved) -= 2 * kStep;
        return (after - subject.ObjectiveByTheBook(rows, moved)) / (2 * kStep);
      };
      for (size_t i = 0; i < subject.parameters.size(); ++i) {
        const double expected = difference([&](Point& p) -> double& { return p.parameters[i]; });
        EXPECT_NEAR(sums[i], expected, 3e-4 * (1 + std::abs(expected))) << "parameter " << i;
      }
      for (size_t i = 0; i < subject.values.size(); ++i) {
        const double expected = difference([&](Point& p) -> double& { return p.rows[i]; });
        EXPECT_NEAR(subject.row_gradient[i], expected, 3e-4 * (1 + std::abs(expected)))
            << "value " << i;
      }
    }
  }
}

TEST(WideNetwork, ARegressionMinimisesTheLossThatIsAskedFor) {
  std::vector<Row> rows(1);
  rows[0].numeric = {0};
  rows[0].target = 43;  // 20 deviations above the mean
  Scaler scaler = Scaler::Identity(1);
  SetTargets(0, scaler);
  const auto slope = [&](ErrorLoss error) {
    const WideNetwork model({.features = 1, .numeric = 1, .classes = 0, .hidden = {2}},
                            {.of_classes = false, .error = error, .huber = 2});
    GradientSum gradient(model.parameter_count(), 1);
    std::vector<float> scores(1);
    model.Compute(Pointers(rows), scaler, std::vector<float>(model.parameter_count()), {},
                  &gradient, scores);
    EXPECT_EQ(scores[0], 3);
    return gradient.values()[1];  // of the bias
  };
  EXPECT_EQ(slope(ErrorLoss::kSquared), -20);
  EXPECT_EQ(slope(ErrorLoss::kAbsolute), -1);
  EXPECT_EQ(slope(ErrorLoss::kHuber), -1) << "2 mean errors of 1, in deviations of 2";
}

TEST(WideNetwork, WithWeightsThatChangeClassesAreAlikeAtZero) {
  const WideNetwork plain({.features = 1, .numeric = 1, .classes = 3, .hidden = {2}});
  EXPECT_TRUE(plain.uses_targets());
  const std::unique_ptr<Model> model = plain.WithClassWeights({1, 2, 4});
  EXPECT_FALSE(model->uses_targets());
  Scaler scaler = Scaler::Identity(1);
  SetTargets(3, scaler);
  std::vector<Row> rows(1);
  rows[0].numeric = {0};
  rows[0].label = 2;
  std::vector<float> scores(3);
  const BatchLoss loss = model->Compute(
      Pointers(rows), scaler, std::vector<float>(model->parameter_count()), nullptr, scores);
  for (const float score : scores) EXPECT_NEAR(score, 1.0 / 3, 1e-6);
  EXPECT_EQ(loss.weight_sum, 4);
  EXPECT_NEAR(loss.loss_sum, 4 * std::log(3), 1e-5);
  const WideNetwork regression({.features = 1, .numeric = 1, .classes = 0, .hidden = {2}});
  EXPECT_EQ(regression.WithClassWeights({1}), nullptr);
}

TEST(WideNetwork, ANewOnePredictsTheFrequencyOfEachClass) {
  std::mt19937 random(3);
  const WideNetwork model(ShapeOf(3, false, {4}));
  const std::vector<float> born =
      InitialWeights(model.random_init_ranges(), 1, {0, model.parameter_count()});
  Scaler scaler = Scaler::Identity(kNumeric);
  SetTargets(3, scaler);
  Row row;
  row.numeric = {1, -2};
  row.index = {3};
  row.value = {1};
  std::vector<float> scores(3);
  model.Compute(std::vector<const Row*>{&row}, scaler, born, {}, nullptr, scores);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(scores[k], (static_cast<double>(k) + 1.5) / 7.5, 1e-6);
  }
}

TEST(WideNetwork, AWideOneIsTheSameInOnePiece) {
  std::mt19937 random(4);
  for (const size_t classes : {0, 3}) {
    Subject wide(classes, true, {6, 3}, random);
    Subject narrow(classes, false, {6, 3}, random);
    const std::vector<Row> rows = RandomRows(RowsWith({}), std::max<size_t>(classes, 1), 9, random);
    wide.Compute(Pointers(rows), nullptr);
    const size_t floats = 3 * wide.model.row_width();
    const std::vector<float> hashed(wide.values.begin(),
                                    wide.values.begin() + static_cast<ptrdiff_t>(floats));
    narrow.parameters = wide.model.NarrowParameters(wide.parameters, hashed);
    ASSERT_EQ(narrow.parameters.size(), narrow.model.parameter_count());
    narrow.Compute(Pointers(rows), nullptr);
    EXPECT_EQ(narrow.scores, wide.scores);
  }
}

TEST(WideNetwork, ABatchTouchesWhatItNamesAndTheWholeNetwork) {
  std::mt19937 random(5);
  Subject subject(3, false, {4}, random);
  subject.Compute({}, &subject.gradient);
  EXPECT_TRUE(subject.gradient.SortedBlocks().empty());
  Row row;
  row.numeric = {0, 0};
  row.index = {3};
  row.value = {1};
  subject.Compute(std::vector<const Row*>{&row}, &subject.gradient);
  // Two numeric columns, one hashed feature and the bias; the hashed feature's units; the network.
  EXPECT_EQ(subject.gradient.SortedBlocks().size(), 4 * 3 + 4 + (2 * 4 + 4 + 4 * 3u));
  EXPECT_EQ(subject.model.penalised_end(), kFeatures * 3);
  EXPECT_EQ(subject.model.linear_end(), (kFeatures + 1) * 3);
}

// Trains with one step per batch of 32 rows. Returns the mean of `error` over the last quarter's
// rows, each before it was learnt from.
double Learn(const WideNetwork& model, const std::vector<Row>& rows, double rate,
             const std::function<double(const Row&, const float*)>& error) {
  const size_t width = model.score_count();
  const size_t columns = rows[0].numeric.size();
  std::vector<float> parameters =
      InitialWeights(model.random_init_ranges(), 1, {0, model.parameter_count()});
  std::vector<float> slots(parameters.size());
  const auto optimizer = Optimizer::Create({.learning_rate = rate});
  Moments moments(columns);
  moments.class_rows.resize(width);
  double sum = 0;
  size_t count = 0;
  const std::vector<const Row*> view = Pointers(rows);
  for (size_t begin = 0; begin + 32 <= rows.size(); begin += 32) {
    const RowsView batch = RowsView(view).subspan(begin, 32);
    Scaler scaler(moments);
    scaler.set_class_rows(moments.class_rows);
    // (As BatchTrainer does it, a batch is learnt relative to its own targets, too.)
    for (const Row* row : batch) moments.target.Add(row->target);
    scaler.set_target(moments.target);
    GradientSum gradient(parameters.size(), 1);
    std::vector<float> scores(32 * width);
    model.Compute(batch, scaler, parameters, {}, &gradient, scores);
    for (size_t i = 0; 4 * begin >= 3 * rows.size() && i < 32; ++i) {
      sum += error(*batch[i], scores.data() + i * width);
      ++count;
    }
    std::vector<float> mean(gradient.values().begin(), gradient.values().end());
    for (float& value : mean) value /= 32;
    optimizer->Step(begin / 32, mean, parameters, slots);
    for (const Row* row : batch) {
      moments.Add(*row);
      if (width > 1) ++moments.class_rows[row->label];
    }
  }
  return sum / static_cast<double>(count);
}

double LogLossOf(const Row& row, const float* scores) {
  return -std::log(std::max(1e-9, static_cast<double>(scores[row.label])));
}

// The label is which of two columns' signs differ: no linear model says more than a coin.
TEST(WideNetwork, LearnsExclusiveOr) {
  std::mt19937 random(6);
  std::vector<Row> rows = RandomRows({.numeric = 2}, 2, 8000, random);
  for (Row& row : rows) row.label = (row.numeric[0] > 0) != (row.numeric[1] > 0) ? 1 : 0;
  const WideNetwork model({.features = 2, .numeric = 2, .classes = 2, .hidden = {16}});
  EXPECT_LT(Learn(model, rows, 0.05, LogLossOf), 0.25);
}

TEST(WideNetwork, LearnsManyClasses) {
  std::mt19937 random(7);
  std::vector<Row> rows = RandomRows({.numeric = 2}, 2, 20000, random);
  for (Row& row : rows) {  // in rings and sectors
    const double turn = std::atan2(row.numeric[0], row.numeric[1]) / 3.14159265 * 4 + 4;
    const bool outer = std::hypot(row.numeric[0], row.numeric[1]) > 1.2;
    row.label = static_cast<uint32_t>(std::min(turn, 7.5)) + (outer ? 8 : 0);
  }
  const WideNetwork model({.features = 2, .numeric = 2, .classes = 16, .hidden = {32, 16}});
  EXPECT_LT(Learn(model, rows, 0.05, LogLossOf), 0.8);  // of ln 16 = 2.77
}

TEST(WideNetwork, EstimatesTargetsThatAreFarFromZero) {
  std::mt19937 random(8);
  std::vector<Row> rows = RandomRows({.numeric = 2}, 2, 8000, random);
  for (Row& row : rows) {
    row.target = static_cast<float>(1e5 + 500 * std::abs(row.numeric[0]) * row.numeric[1]);
  }
  const WideNetwork model({.features = 2, .numeric = 2, .classes = 0, .hidden = {16, 8}});
  const auto square = [](const Row& row, const float* y) {
    return std::pow(static_cast<double>(y[0]) - static_cast<double>(row.target), 2);
  };
  // The deviation of the targets is 500.
  EXPECT_LT(std::sqrt(Learn(model, rows, 0.05, square)), 200);
}

}  // namespace
}  // namespace millrace
