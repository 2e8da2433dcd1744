// A regression that learns row by row (OnlineSoftmax without classes).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "models/online_softmax.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

constexpr size_t kNumeric = 3;
constexpr size_t kFeatures = 9;
constexpr uint32_t kBias = kFeatures;

// A worker alone, and its server.
class Estimates {
 public:
  explicit Estimates(const ScoreLoss& loss = {}, bool wide = false, bool ids = false)
      : model_({.numeric = kNumeric, .features = kFeatures, .classes = 0, .wide = wide, .ids = ids},
               {}, loss),
        parameters_(model_.parameter_count()),
        moments_(kNumeric) {}

  // The predictions of the rows, in order.
  std::vector<float> Learn(const std::vector<Row>& rows, size_t batch_rows = 32) {
    std::vector<float> all;
    const std::vector<const Row*> view = Pointers(rows);
    for (size_t begin = 0; begin < rows.size(); begin += batch_rows) {
      const RowsView batch =
          std::span(view).subspan(begin, std::min(batch_rows, rows.size() - begin));
      std::vector<EmbeddingId> ids;
      for (const Row* row : batch) model_.AppendIds(*row, ids);
      std::ranges::sort(ids);
      ids.erase(std::ranges::unique(ids).begin(), ids.end());
      std::vector<float> values;
      for (const EmbeddingId id : ids) {
        std::vector<float>& block = rows_[id];
        block.resize(model_.row_width());
        values.insert(values.end(), block.begin(), block.end());
      }
      std::vector<float> change_of_rows(values.size());
      GradientSum change(parameters_.size(), model_.block_size());
      RunningScaler scaler(moments_, true);
      std::vector<float> scores(batch.size());
      model_.Learn({.rows = batch, .trained_end = batch.size()}, scaler, parameters_,
                   {ids, values, change_of_rows}, change, scores);
      for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] += change.values()[i];
      for (size_t i = 0; i < values.size(); ++i) {
        rows_[ids[i / model_.row_width()]][i % model_.row_width()] += change_of_rows[i];
      }
      moments_.Merge(scaler.added());
      all.insert(all.end(), scores.begin(), scores.end());
    }
    return all;
  }

  const OnlineSoftmax& model() const { return model_; }
  const std::vector<float>& parameters() const { return parameters_; }
  // The losses of the racers, then the count of rows.
  std::span<const float> Race() const {
    return std::span(parameters_)
        .subspan((kFeatures + 1) * model_.block_size(), RaceView::FloatsFor(0));
  }
  const Moments& moments() const { return moments_; }

 private:
  OnlineSoftmax model_;
  std::vector<float> parameters_;
  std::map<EmbeddingId, std::vector<float>> rows_;
  Moments moments_;
};

float Linear(const Row& row) {
  float y = 2 * static_cast<float>(row.numeric[0]) - static_cast<float>(row.numeric[1]);
  for (size_t i = 0; i < row.index.size(); ++i) {
    y += 0.5f * row.value[i] * static_cast<float>(row.index[i] % 3);
  }
  return y;
}

std::vector<Row> RandomTargets(size_t count, uint32_t seed, float noise = 0.3f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    for (size_t i = 0; i < kNumeric; ++i) {
      row.numeric.push_back(static_cast<double>(normal(random)));
    }
    for (uint32_t f = kNumeric; f < kFeatures; ++f) {
      if (random() % 3 != 0) continue;
      row.index.push_back(f);
      row.value.push_back(random() % 2 == 0 ? 1.0f : -1.0f);
    }
    row.target = Linear(row) + noise * normal(random);
  }
  return rows;
}

double Rmse(const std::vector<Row>& rows, const std::vector<float>& estimates, size_t from) {
  double sum = 0;
  for (size_t i = from; i < rows.size(); ++i) {
    sum += std::pow(static_cast<double>(estimates[i]) - static_cast<double>(rows[i].target), 2);
  }
  return std::sqrt(sum / static_cast<double>(rows.size() - from));
}

double MeanError(const std::vector<Row>& rows, const std::vector<float>& estimates, size_t from) {
  double sum = 0;
  for (size_t i = from; i < rows.size(); ++i) {
    sum += std::abs(static_cast<double>(estimates[i]) - static_cast<double>(rows[i].target));
  }
  return sum / static_cast<double>(rows.size() - from);
}

// The formulas of docs/learning.md once more, in doubles, with a map of weights for each rate.
class PlainEstimator {
 public:
  static constexpr std::array<double, 7> kRates = {0.02, 0.12, 0.7, 0.015, 0.06, 0.25, 1};
  // The racers after the rates; the last one says the mean.
  static constexpr size_t kNewton = kRates.size();
  static constexpr size_t kRacers = kNewton + 2;
  using Racers = std::array<double, kRacers>;

  explicit PlainEstimator(const ScoreLoss& loss) : loss_(loss) {}

  double Next(const Row& row) {
    const std::map<uint32_t, double> x = FeaturesOf(row);
    Racers of_racers{};
    for (size_t e = 0; e < kRates.size(); ++e) {
      for (const auto& [feature, value] : x) of_racers[e] += weights_[e][feature] * value;
    }
    of_racers[kNewton] = TogetherOf(x);
    double together = 0;
    const Racers shares = Shares();
    for (size_t e = 0; e <= kNewton; ++e) together += shares[e] * of_racers[e];
    const double mean = targets_ == 0 ? 0 : sum_ / targets_;
    const double limited = targets_ > 0 ? std::clamp(mean + together, least_, most_) : 0;
    const double prediction = votes_ > 0 ? limited : mean + together;
    const auto target = static_cast<double>(row.target);
    if (targets_ > 0) {
      LearnFrom(x, of_racers, target - mean, DeviationWith(target));
      errors_ += std::abs(prediction - target);
      ++predicted_;
      const double free = std::pow(mean + together - target, 2);
      const double kept = std::pow(limited - target, 2);
      votes_ *= 0.9995;
      if (free > 0) votes_ += (free - kept) / (free + kept);
    }
    least_ = targets_ > 0 ? std::min(least_, target) : target;
    most_ = targets_ > 0 ? std::max(most_, target) : target;
    sum_ += target;
    squares_ += target * target;
    targets_ += 1;
    for (size_t i = 0; i < kNumeric; ++i) columns_[i].push_back(row.numeric[i]);
    return prediction;
  }

 private:
  std::map<uint32_t, double> FeaturesOf(const Row& row) const {
    std::map<uint32_t, double> x = {{kBias, 1.0}};
    for (uint32_t i = 0; i < kNumeric; ++i) {
      const std::vector<double>& seen = columns_[i];
      const auto n = static_cast<double>(seen.size());
      double mean = 0;
      double variance = 0;
      for (const double value : seen) mean += value / n;
      for (const double value : seen) variance += (value - mean) * (value - mean) / n;
      if (variance > 0) x[i] = std::clamp((row.numeric[i] - mean) / std::sqrt(variance), -5.0, 5.0);
    }
    for (size_t i = 0; i < row.index.size(); ++i)
      x[row.index[i]] = static_cast<double>(row.value[i]);
    return x;
  }
  // The numbers and the bias, and what they say together: least squares with a ridge of .01, by
  // Gauss's elimination.
  static std::array<double, kNumeric + 1> NumbersOf(const std::map<uint32_t, double>& x) {
    std::array<double, kNumeric + 1> numbers{};
    for (uint32_t i = 0; i < kNumeric; ++i) numbers[i] = x.contains(i) ? x.at(i) : 0;
    numbers[kNumeric] = 1;
    return numbers;
  }
  // Of all targets so far and this one.
  double DeviationWith(double target) const {
    const double mean = (sum_ + target) / (targets_ + 1);
    return std::sqrt((squares_ + target * target) / (targets_ + 1) - mean * mean);
  }
  double TogetherOf(const std::map<uint32_t, double>& x) const {
    auto a = matrix_;
    auto b = vector_;
    for (size_t i = 0; i < b.size(); ++i) a[i][i] += 0.01;
    for (size_t i = 0; i < b.size(); ++i) {
      for (size_t j = i + 1; j < b.size(); ++j) {
        const double by = a[j][i] / a[i][i];
        for (size_t k = i; k < b.size(); ++k) a[j][k] -= by * a[i][k];
        b[j] -= by * b[i];
      }
    }
    for (size_t i = b.size(); i-- > 0;) {
      for (size_t k = i + 1; k < b.size(); ++k) b[i] -= a[i][k] * b[k];
      b[i] /= a[i][i];
    }
    const auto numbers = NumbersOf(x);
    return std::inner_product(b.begin(), b.end(), numbers.begin(), 0.0);
  }
  Racers Shares() const {
    Racers shares{};
    shares.fill(1.0 / kRacers);
    const double least = *std::ranges::min_element(losses_);
    if (least <= 0) return shares;
    const double power = loss_.error == ErrorLoss::kAbsolute ? rows_ : rows_ / 2;
    double sum = 0;
    for (size_t e = 0; e < kRacers; ++e) sum += shares[e] = std::pow(least / losses_[e], power);
    for (double& share : shares) share /= sum;
    return shares;
  }
  double LossOf(double error, double limit) const {
    const double size = std::abs(error);
    if (loss_.error == ErrorLoss::kAbsolute) return size;
    return loss_.error == ErrorLoss::kHuber && limit > 0 && size > limit
               ? 2 * limit * size - limit * limit
               : size * size;
  }
  void LearnFrom(const std::map<uint32_t, double>& x, const Racers& of_racers, double distance,
                 double unit) {
    const double usual = predicted_ == 0 ? 0 : errors_ / predicted_;
    const double limit =
        loss_.error == ErrorLoss::kHuber ? static_cast<double>(loss_.huber) * usual : usual;
    for (size_t e = 0; e < kRacers; ++e) {
      losses_[e] = losses_[e] * 0.9995 + LossOf((of_racers[e] - distance) / unit, limit / unit);
    }
    double pull = distance - of_racers[kNewton];
    if (loss_.error != ErrorLoss::kSquared && limit > 0) pull = std::clamp(pull, -limit, limit);
    const auto numbers = NumbersOf(x);
    for (size_t i = 0; i <= kNumeric; ++i) {
      for (size_t j = 0; j <= kNumeric; ++j) matrix_[i][j] += numbers[i] * numbers[j];
      vector_[i] += numbers[i] * (of_racers[kNewton] + pull);
    }
    rows_ = rows_ * 0.9995 + 1;
    double squares = 0;
    for (const auto& [feature, value] : x) {
      curvature_[feature] += value * value;
      squares += value * value;
    }
    for (size_t e = 0; e < kRates.size(); ++e) {
      const auto rate = [&](uint32_t feature) {
        return e < 3 ? std::min(kRates[e], 6 / squares)
                     : kRates[e] / std::sqrt(curvature_[feature] + 0.001);
      };
      double s = 0;
      for (const auto& [feature, value] : x) s += rate(feature) * value * value;
      const double error = of_racers[e] - distance;
      double slope = error / (1 + s);
      if (loss_.error != ErrorLoss::kSquared && limit > 0) {
        if (loss_.error == ErrorLoss::kAbsolute) slope = error / s;
        slope = std::clamp(slope, -limit, limit);
      }
      for (const auto& [feature, value] : x) weights_[e][feature] -= rate(feature) * slope * value;
    }
  }

  const ScoreLoss loss_;
  std::array<std::map<uint32_t, double>, kRates.size()> weights_;
  std::map<uint32_t, double> curvature_;
  Racers losses_{};
  std::array<std::array<double, kNumeric + 1>, kNumeric + 1> matrix_{};
  std::array<double, kNumeric + 1> vector_{};
  double rows_ = 0;
  std::array<std::vector<double>, kNumeric> columns_;
  double sum_ = 0;
  double squares_ = 0;
  double targets_ = 0;
  double errors_ = 0;
  double predicted_ = 0;
  double least_ = 0;  // of the targets
  double most_ = 0;
  double votes_ = 0;  // for keeping to them
};

TEST(OnlineEstimator, OneWorkerLearnsWhatThePlainEstimatorOfThePageLearns) {
  for (const ErrorLoss error : {ErrorLoss::kSquared, ErrorLoss::kAbsolute, ErrorLoss::kHuber}) {
    const ScoreLoss loss{.of_classes = false, .error = error, .huber = 1.2f};
    std::vector<Row> rows = RandomTargets(300, 1);
    for (size_t i = 0; i < rows.size(); i += 17) rows[i].target += 40;  // beyond any limit
    Estimates estimates(loss);
    PlainEstimator plain(loss);
    const std::vector<float> is = estimates.Learn(rows, 32);
    for (size_t i = 0; i < rows.size(); ++i) {
      const double expected = plain.Next(rows[i]);
      EXPECT_NEAR(is[i], expected, 1e-4 * (1 + std::abs(expected)))
          << "row " << i << " of loss " << static_cast<int>(error);
    }
  }
}

// The losses of the race were squares in the targets' unit: of 10^10 a shard took none of them.
TEST(OnlineEstimator, TheRaceIsOfTheSameSizeInAnyUnitOfTheTargets) {
  for (const ErrorLoss error : {ErrorLoss::kSquared, ErrorLoss::kAbsolute, ErrorLoss::kHuber}) {
    const ScoreLoss loss{.of_classes = false, .error = error, .huber = 1.2f};
    const std::vector<Row> rows = RandomTargets(300, 1);
    Estimates estimates(loss);
    estimates.Learn(rows, 32);
    for (const float unit : {1e-12f, 1e12f}) {
      std::vector<Row> in_unit = rows;
      for (Row& row : in_unit) row.target *= unit;
      Estimates of_unit(loss);
      of_unit.Learn(in_unit, 32);
      const std::span<const float> race = estimates.Race();
      for (size_t i = 0; i < race.size(); ++i) {
        EXPECT_NEAR(of_unit.Race()[i], race[i], 1e-2f * (1 + race[i])) << unit << ", " << i;
      }
    }
  }
}

TEST(OnlineEstimator, AWideOneGivesTheBytesOfTheDenseOne) {
  const std::vector<Row> rows = RandomTargets(200, 2);
  EXPECT_EQ(Estimates({}, true).Learn(rows), Estimates({}, false).Learn(rows));
}

// An id is a feature of its own: as one that is hashed, but never with another one.
TEST(OnlineEstimator, IdsAreFeaturesThatAreKeptAsRows) {
  std::vector<Row> rows = RandomTargets(300, 11);
  std::vector<Row> with_ids = rows;
  for (Row& row : with_ids) {
    for (const uint32_t feature : row.index) row.ids.push_back((uint64_t{feature} << 40) + 5);
    row.index.clear();
    row.value.clear();
  }
  for (Row& row : rows) std::ranges::fill(row.value, 1.0f);
  EXPECT_EQ(Estimates({}, false, true).Learn(with_ids), Estimates({}, true, false).Learn(rows));
  EXPECT_EQ(Estimates({}, true, true).Learn(with_ids), Estimates({}, true, false).Learn(rows));
}

TEST(OnlineEstimator, NoUnitOfTheTargetMatters) {
  const std::vector<Row> rows = RandomTargets(2000, 3);
  for (const ErrorLoss error : {ErrorLoss::kSquared, ErrorLoss::kAbsolute, ErrorLoss::kHuber}) {
    const ScoreLoss loss{.of_classes = false, .error = error};
    const std::vector<float> expected = Estimates(loss).Learn(rows);
    for (const float unit : {1e-9f, 1024.0f, 1e9f}) {
      std::vector<Row> scaled = rows;
      for (Row& row : scaled) row.target *= unit;
      const std::vector<float> is = Estimates(loss).Learn(scaled);
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_NEAR(is[i] / unit, expected[i], 2e-3) << "unit " << unit << ", row " << i;
      }
    }
  }
}

TEST(OnlineEstimator, TargetsFarFromZeroAreLearntAsFastAsOthers) {
  std::vector<Row> rows = RandomTargets(2000, 4);
  const std::vector<float> near = Estimates().Learn(rows);
  EXPECT_LT(Rmse(rows, near, 1000), 0.33) << "the noise is 0.3";
  const double error = Rmse(rows, near, 1);
  for (Row& row : rows) row.target += 1e4f;
  EXPECT_NEAR(Rmse(rows, Estimates().Learn(rows), 1), error, 0.01);
}

TEST(OnlineEstimator, NoiseIsEstimatedByItsMean) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(7, 2);
  std::vector<Row> rows = RandomTargets(5000, 6);
  for (Row& row : rows) row.target = normal(random);
  double mean = 0;
  for (const Row& row : rows) mean += static_cast<double>(row.target) / 5000;
  double variance = 0;
  for (const Row& row : rows)
    variance += std::pow(static_cast<double>(row.target) - mean, 2) / 5000;
  EXPECT_LT(Rmse(rows, Estimates().Learn(rows), 1), 1.005 * std::sqrt(variance));
}

// One target in fifty is off by a hundred times the noise.
TEST(OnlineEstimator, OutliersMoveTheAbsoluteAndHubersLossLess) {
  std::vector<Row> rows = RandomTargets(6000, 7);
  const std::vector<Row> clean = rows;
  for (size_t i = 0; i < rows.size(); i += 50) rows[i].target += 30;
  const auto error_of = [&](ErrorLoss error) {
    return MeanError(clean, Estimates({.of_classes = false, .error = error}).Learn(rows), 1000);
  };
  const double squared = error_of(ErrorLoss::kSquared);
  EXPECT_LT(error_of(ErrorLoss::kHuber), squared - 0.2);
  EXPECT_LT(error_of(ErrorLoss::kAbsolute), squared - 0.2);
}

TEST(OnlineEstimator, StaysFiniteWhateverTheRowsAre) {
  std::mt19937 random(8);
  for (const ErrorLoss error : {ErrorLoss::kSquared, ErrorLoss::kAbsolute, ErrorLoss::kHuber}) {
    std::vector<Row> rows = RandomTargets(1500, 9);
    for (Row& row : rows) {
      const std::array<float, 6> odd = {0, 1e18f, -1e18f, 1e-30f, 3, row.target};
      row.target = odd[random() % odd.size()];
      for (double& value : row.numeric) {
        const std::array<double, 5> values = {0, 1e300, -1e300, 1e-300,
                                              std::numeric_limits<double>::quiet_NaN()};
        value = values[random() % values.size()];
      }
      for (float& value : row.value) value = random() % 2 == 0 ? 3e38f : 1e-38f;
    }
    Estimates estimates({.of_classes = false, .error = error});
    for (const float estimate : estimates.Learn(rows)) ASSERT_TRUE(std::isfinite(estimate));
    for (const float value : estimates.parameters()) ASSERT_TRUE(std::isfinite(value));
    EXPECT_TRUE(estimates.moments().IsValid());
  }
}

TEST(OnlineEstimator, ThePredictingWeightsGiveTheSameEstimates) {
  const std::vector<Row> rows = RandomTargets(500, 10);
  Estimates estimates;
  estimates.Learn(rows);
  const std::vector<float> weights =
      estimates.model().PredictingWeights(estimates.parameters(), {});
  ASSERT_EQ(weights.size(), kFeatures + 1);
  Scaler scaler(estimates.moments());
  scaler.set_target(estimates.moments().target);
  std::vector<float> scores(rows.size());
  estimates.model().Compute(Pointers(rows), scaler, estimates.parameters(), {}, nullptr, scores);
  for (size_t i = 0; i < rows.size(); ++i) {
    float y = static_cast<float>(estimates.moments().target.mean) + weights[kBias];
    for (size_t f = 0; f < kNumeric; ++f) y += weights[f] * scaler.Scale(f, rows[i].numeric[f]);
    for (size_t f = 0; f < rows[i].index.size(); ++f) {
      y += weights[rows[i].index[f]] * rows[i].value[f];
    }
    EXPECT_NEAR(scores[i], y, 1e-4);
  }
}

}  // namespace
}  // namespace millrace
