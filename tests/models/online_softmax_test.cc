#include "models/online_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "models/softmax_regression.h"
#include "tests/models/online_cases.h"
#include "tests/models/online_job.h"
#include "tests/models/plain_online_learner.h"

namespace millrace {
namespace {

using Shape = OnlineSoftmax::Shape;

constexpr size_t kRates = OnlineRace::kRates;
constexpr size_t kCurvature = OnlineRace::kCurvature;

void ExpectNear(double actual, double expected, double tolerance) {
  EXPECT_NEAR(actual, expected, tolerance * std::max(1.0, std::abs(expected)));
}

// The losses of those that take part.
std::vector<float> LossesOf(const OnlineJob& job) {
  const std::span<const float> all = job.Race().first(OnlineRace::kRacers);
  std::vector<float> losses(all.begin(), all.end());
  const OnlineSoftmax::Shape& shape = job.model().shape();
  if (NewtonRacer::SumsFor(shape.numeric, OnlineLearner::ColumnsFor(shape.classes)) == 0) {
    losses[OnlineRace::kNewton] = std::numeric_limits<float>::infinity();
  }
  return losses;
}

size_t WinnerOf(const OnlineJob& job) {
  const std::vector<float> losses = LossesOf(job);
  return static_cast<size_t>(std::ranges::min_element(losses) - losses.begin());
}

// Of the racers in [begin, end).
double ShareOf(const OnlineJob& job, size_t begin, size_t end) {
  const std::vector<float> losses = LossesOf(job);
  double part = 0;
  double sum = 0;
  for (size_t e = 0; e < losses.size(); ++e) {
    const double share = std::exp(static_cast<double>(losses[WinnerOf(job)] - losses[e]));
    sum += share;
    if (e >= begin && e < end) part += share;
  }
  return part / sum;
}

TEST(OnlineSoftmaxTest, OneWorkerLearnsWhatThePlainLearnerOfThePageLearns) {
  for (const LearnerCase& setup : SomeLearners()) {
    const Shape& shape = setup.shape;
    const std::vector<Row> rows = LearnableRows(shape, 400, 5);
    PlainOnlineLearner plain(shape.numeric, static_cast<uint32_t>(shape.features), shape.classes,
                             {setup.class_weights.begin(), setup.class_weights.end()});
    OnlineJob job(shape, setup.class_weights);
    job.Learn(rows, 37);
    double loss = 0;
    double weight = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto features = plain.FeaturesOf(rows[i]);
      const std::vector<double> p = plain.Test(features);
      for (size_t k = 0; k < shape.classes; ++k) {
        // (The losses of the race are floats, of whose difference a share is the exponent.)
        ExpectNear(static_cast<double>(job.scores()[i * shape.classes + k]), p[k], 3e-5);
      }
      const double a = setup.class_weights.empty()
                           ? 1.0
                           : static_cast<double>(setup.class_weights[rows[i].label]);
      loss -= a * std::log(p[rows[i].label]);
      weight += a;
      plain.Learn(features, rows[i].label);
      plain.Count(rows[i]);
    }
    EXPECT_LT(loss / weight, std::log(shape.classes) * 0.95) << "there was something to learn";
    ExpectNear(job.mean_loss(), loss / weight, 1e-5);
    for (uint32_t feature = 0; feature <= shape.features; ++feature) {
      for (size_t k = plain.FirstColumn(); k < shape.classes; ++k) {
        const size_t column = k - plain.FirstColumn();
        for (size_t e = 0; e < kRates; ++e) {
          ExpectNear(static_cast<double>(job.Value(feature, column, e)),
                     plain.Weight(e, k, feature), 1e-5);
        }
        ExpectNear(static_cast<double>(job.Value(feature, column, kCurvature)),
                   plain.Curvature(k, feature), 1e-5);
      }
    }
  }
}

TEST(OnlineSoftmaxTest, BatchesOfAnySizeLearnTheSame) {
  for (const LearnerCase& setup : SomeLearners()) {
    const std::vector<Row> rows = LearnableRows(setup.shape, 300, 6);
    OnlineJob single(setup.shape, setup.class_weights);
    single.Learn(rows, 1);
    for (const size_t batch_rows : {2, 7, 64, 300}) {
      OnlineJob job(setup.shape, setup.class_weights);
      job.Learn(rows, batch_rows);
      for (size_t i = 0; i < job.scores().size(); ++i) {
        EXPECT_NEAR(job.scores()[i], single.scores()[i], 2e-5) << batch_rows;
      }
      for (size_t i = 0; i < job.parameters().size(); ++i) {
        ExpectNear(static_cast<double>(job.parameters()[i]),
                   static_cast<double>(single.parameters()[i]), 2e-5);
      }
    }
  }
}

TEST(OnlineSoftmaxTest, AWideOneGivesTheBytesOfTheDenseOne) {
  for (const size_t numeric : {0, 3}) {
    for (const size_t classes : {2, 5}) {
      Shape shape = {.numeric = numeric, .features = numeric + 40, .classes = classes};
      const std::vector<Row> rows = LearnableRows(shape, 200, 7);
      OnlineJob dense(shape);
      shape.wide = true;
      OnlineJob wide(shape);
      EXPECT_EQ(wide.model().row_width(), dense.model().block_size());
      dense.Learn(rows, 23);
      wide.Learn(rows, 23);
      EXPECT_EQ(wide.scores(), dense.scores());
      EXPECT_EQ(wide.mean_loss(), dense.mean_loss());
      const size_t block = dense.model().block_size();
      std::vector<EmbeddingId> ids;
      for (size_t feature = numeric; feature < shape.features; ++feature) ids.push_back(feature);
      std::vector<float> all(wide.parameters().begin(),
                             wide.parameters().begin() + static_cast<ptrdiff_t>(numeric * block));
      const std::vector<float> values = wide.RowsOf(ids);
      all.insert(all.end(), values.begin(), values.end());
      all.insert(all.end(), wide.parameters().begin() + static_cast<ptrdiff_t>(numeric * block),
                 wide.parameters().end());
      EXPECT_EQ(all, dense.parameters());
      // The same for who tests, and who has the rows of a whole test set.
      EXPECT_EQ(wide.Test(rows[0]), dense.Test(rows[0]));
      std::vector<float> scores(classes);
      const Row* const row = &rows[0];
      wide.model().Compute({&row, 1}, wide.scaler(), wide.parameters(), {ids, values, {}}, nullptr,
                           scores);
      EXPECT_EQ(scores, dense.Test(rows[0]));
      EXPECT_EQ(wide.model().PredictingWeights(wide.parameters(), values),
                dense.model().PredictingWeights(dense.parameters(), {}));
    }
  }
}

TEST(OnlineSoftmaxTest, OnlyBlocksThatTheRowsNameAreTouched) {
  const Shape shape = {.numeric = 2, .features = 10, .classes = 2};
  OnlineJob job(shape);
  job.Learn(LearnableRows(shape, 50, 1));
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> rows = {
      {.label = 1, .numeric = {1, missing}, .index = {4, 7}, .value = {1, -1}},
      {.label = 0, .numeric = {2, missing}, .index = {7, 9}, .value = {1, 0}}};
  const OnlineJob::Change change = job.ChangeBy(Pointers(rows));
  // The numeric columns, two features named, one that is 0, the bias, the race's, and the sums of
  // the numeric columns.
  EXPECT_THAT(change.blocks, testing::ElementsAre(0, 1, 4, 7, 9, 10, 11, 12, 13, 14));
  const size_t block = job.model().block_size();
  for (size_t feature = 0; feature <= shape.features; ++feature) {
    const bool learns = feature == 0 || feature == 4 || feature == 7 || feature == 10;
    for (size_t i = 0; i < block; ++i) {
      EXPECT_EQ(change.parameters[feature * block + i] != 0, learns) << feature;
    }
  }
}

TEST(OnlineSoftmaxTest, RowsBeforeAndAfterThoseToLearnFromAreOnlyTested) {
  const Shape shape = {.numeric = 2, .features = 8, .classes = 3};
  OnlineJob job(shape);
  job.Learn(LearnableRows(shape, 60, 2));
  const std::vector<Row> rows = LearnableRows(shape, 30, 3);
  const std::vector<const Row*> all = Pointers(rows);
  OnlineJob other = job;
  const OnlineJob::Change change = job.ChangeBy(OnlineSoftmax::Batch{
      .rows = all, .trained_begin = 10, .trained_end = 20, .scaled_begin = 10});
  const OnlineJob::Change middle = other.ChangeBy(std::span(all).subspan(10, 10));
  EXPECT_EQ(change.parameters, middle.parameters);
  EXPECT_EQ(change.moments, middle.moments);
  EXPECT_EQ(change.loss.loss_sum, middle.loss.loss_sum);
  EXPECT_EQ(change.loss.weight_sum, 10);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 20) other.Apply(middle);
    if (i >= 10 && i < 20) continue;
    const std::vector<float> tested = other.Test(rows[i]);
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(change.scores[i * 3 + k], tested[k], 1e-5) << i;
  }
}

TEST(OnlineSoftmaxTest, WithoutARowToLearnFromNothingChanges) {
  const Shape shape = {.numeric = 2, .features = 8, .classes = 2};
  OnlineJob job(shape);
  job.Learn(LearnableRows(shape, 60, 2));
  const std::vector<Row> rows = LearnableRows(shape, 5, 3);
  const std::vector<const Row*> all = Pointers(rows);
  const OnlineJob::Change change = job.ChangeBy(OnlineSoftmax::Batch{.rows = all});
  EXPECT_THAT(change.blocks, testing::IsEmpty());
  EXPECT_THAT(change.parameters, testing::Each(0.0f));
  EXPECT_EQ(change.loss.weight_sum, 0);
  EXPECT_EQ(change.moments, Moments(2));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::vector(change.scores.begin() + static_cast<ptrdiff_t>(2 * i),
                          change.scores.begin() + static_cast<ptrdiff_t>(2 * i + 2)),
              job.Test(rows[i]));
  }
}

TEST(OnlineSoftmaxTest, ARowIsTestedByTheRowsBeforeItOnly) {
  const Shape shape = {.numeric = 2, .features = 8, .classes = 2};
  const std::vector<Row> rows = LearnableRows(shape, 40, 4);
  OnlineJob whole(shape);
  whole.Learn(rows, 40);
  // Its label and all that comes after it have no influence.
  for (const size_t i : {0, 1, 13, 39}) {
    std::vector<Row> others = rows;
    others[i].label ^= 1;
    for (size_t j = i + 1; j < others.size(); ++j) {
      others[j].label = 0;
      others[j].numeric = {1e6, -1e6};
      others[j].index.clear();
      others[j].value.clear();
    }
    OnlineJob job(shape);
    job.Learn(others, 40);
    for (size_t at = 0; at < 2 * (i + 1); ++at) EXPECT_EQ(job.scores()[at], whole.scores()[at]);
    if (i + 1 == rows.size()) continue;
    EXPECT_NE(job.scores()[2 * i + 2], whole.scores()[2 * i + 2]);
  }
  // What comes before has: each row is tested by the parameters and scaled by the rows so far.
  OnlineJob job(shape);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(job.Test(rows[i])[1], whole.scores()[2 * i + 1], 1e-5);
    job.Learn({rows[i]});
  }
}

TEST(OnlineSoftmaxTest, AConstantRateWinsWhereTheStreamChanges) {
  const Shape shape = {.numeric = 2, .features = 2, .classes = 2};
  std::mt19937 random(3);
  std::vector<Row> rows = RandomRows({.numeric = 2}, 2, 4000, random);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].label = (rows[i].numeric[0] > 0) == (i / 250 % 2 == 0) ? 1 : 0;
  }
  OnlineJob job(shape);
  job.Learn(rows);
  EXPECT_LT(WinnerOf(job), OnlineRace::kConstant.size());
  EXPECT_GT(ShareOf(job, 0, OnlineRace::kConstant.size()), 0.99);
  EXPECT_LT(job.mean_loss(), 0.55) << "the class frequencies have .69";
}

TEST(OnlineSoftmaxTest, ADecayingRateWinsWhereTheStreamDoesNotChange) {
  const Shape shape = {.numeric = 0, .features = 200, .classes = 2};
  std::mt19937 random(3);
  std::vector<Row> rows = RandomRows({.hashed = 200, .hashed_in_row = 5}, 2, 4000, random);
  for (Row& row : rows) {
    double sum = 0;
    for (size_t i = 0; i < row.index.size(); ++i) {
      row.value[i] = 1;
      sum += row.index[i] % 7 == 0 ? 3 : -0.5;
    }
    row.label = sum > 0 ? 1 : 0;
  }
  OnlineJob job(shape);
  job.Learn(rows);
  EXPECT_GT(ShareOf(job, OnlineRace::kConstant.size(), kRates), 0.99);
}

// Slow rates alone are right for so many columns, and have to know from the start that a class is
// rare.
TEST(OnlineSoftmaxTest, WhatTellsOfARareClassIsFoundAmongManyColumns) {
  const Shape shape = {.numeric = 80, .features = 80, .classes = 2};
  std::mt19937 random(3);
  std::vector<Row> rows = RandomRows({.numeric = 80}, 2, 4000, random);
  std::uniform_real_distribution<double> uniform;
  double entropy = 0;
  for (Row& row : rows) {
    const double score = -3 + 0.6 * (row.numeric[0] + row.numeric[1] + row.numeric[2]);
    row.label = uniform(random) < 1 / (1 + std::exp(-score)) ? 1 : 0;
    entropy -= row.label;
  }
  const double share = -entropy / static_cast<double>(rows.size());
  entropy = -share * std::log(share) - (1 - share) * std::log(1 - share);
  OnlineJob job(shape);
  job.Learn(rows);
  EXPECT_LT(job.mean_loss(), entropy - 0.004);
}

TEST(OnlineSoftmaxTest, TheClassFrequenciesWinWhereFeaturesSayNothing) {
  const Shape shape = {.numeric = 20, .features = 20, .classes = 2};
  std::mt19937 random(3);
  std::vector<Row> rows = RandomRows({.numeric = 20}, 2, 3000, random);
  size_t ones = 0;
  for (Row& row : rows) ones += row.label = random() % 10 < 3 ? 1 : 0;
  OnlineJob job(shape);
  job.Learn(rows);
  EXPECT_EQ(WinnerOf(job), OnlineRace::kPrior);
  EXPECT_GT(ShareOf(job, OnlineRace::kPrior, OnlineRace::kRacers), 0.75);
  const double share = static_cast<double>(ones) / static_cast<double>(rows.size());
  const double entropy = -share * std::log(share) - (1 - share) * std::log(1 - share);
  EXPECT_LT(job.mean_loss(), entropy + 0.005);
  EXPECT_NEAR(job.Test(rows[0])[1], share, 0.05);
}

// ---- extreme rows ----

TEST(OnlineSoftmaxTest, StaysFiniteWhateverTheRowsAre) {
  const float most = std::numeric_limits<float>::max();
  const double large = std::numeric_limits<double>::max();
  const auto one_class = [](size_t) { return 1u; };
  const auto changing = [](size_t i) { return static_cast<uint32_t>(i / 3 % 2); };
  struct Case {
    const char* name;
    std::function<uint32_t(size_t)> label;
    std::function<double(size_t)> number;
    std::function<float(size_t)> value;
  };
  const std::vector<Case> cases = {
      {"one class", one_class, [](size_t i) { return i % 2 == 0 ? 5.0 : -5.0; },
       [](size_t) { return 5.0f; }},
      {"contradictions", changing, [](size_t) { return 5.0; }, [](size_t) { return -5.0f; }},
      {"the largest numbers", changing, [&](size_t i) { return i % 2 == 0 ? large : -large; },
       [&](size_t i) { return i % 3 == 0 ? most : -most; }},
      {"the largest numbers of one class", one_class, [&](size_t) { return large; },
       [&](size_t) { return most; }},
      {"now and then a large one", changing, [&](size_t i) { return i % 50 == 0 ? large : 1; },
       [&](size_t i) { return i % 70 == 0 ? most : 1; }},
      {"the smallest numbers", changing, [](size_t) { return 1e-300; },
       [](size_t) { return std::numeric_limits<float>::denorm_min(); }}};
  for (const Case& extreme : cases) {
    for (const size_t classes : {2, 4}) {
      for (const bool scales : {false, true}) {
        const Shape shape = {.numeric = 30, .features = 40, .classes = classes};
        std::vector<Row> rows(600);
        for (size_t i = 0; i < rows.size(); ++i) {
          rows[i].label = extreme.label(i);
          rows[i].numeric.assign(30, extreme.number(i));
          rows[i].index = {30, 31 + static_cast<uint32_t>(i % 9)};
          rows[i].value.assign(2, extreme.value(i));
        }
        OnlineJob job(shape, {}, scales);
        job.Learn(rows);
        EXPECT_TRUE(AllFinite(job.scores())) << extreme.name;
        EXPECT_TRUE(AllFinite(job.parameters())) << extreme.name;
        EXPECT_TRUE(std::isfinite(job.mean_loss())) << extreme.name;
        // A shard takes no larger ones (kLargestValue, processors/server_options.h).
        EXPECT_LT(*std::ranges::max_element(job.parameters()), 1e18f) << extreme.name;
        EXPECT_TRUE(AllFinite(job.model().PredictingWeights(job.parameters(), {})));
        // Many workers with the same batch.
        const std::vector<const Row*> all = Pointers(rows);
        EXPECT_TRUE(AllFinite(job.ChangeBy(all, 128).parameters)) << extreme.name;
      }
    }
  }
}

TEST(OnlineSoftmaxTest, AValueThatIsFarTooLargeDoesNotSpoilTheOthers) {
  const Shape shape = {.numeric = 0, .features = 3, .classes = 2};
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 400; ++i) {
    rows.push_back({.label = i % 2, .numeric = {}, .index = {i % 2}, .value = {1}});
    if (i % 40 != 0) continue;
    rows.push_back(
        {.label = 1, .numeric = {}, .index = {2}, .value = {std::numeric_limits<float>::max()}});
  }
  OnlineJob job(shape);
  job.Learn(rows);
  EXPECT_GT(job.Test(rows[0])[0], 0.9f);
  EXPECT_GT(job.Test(rows[2])[1], 0.9f);
}

TEST(OnlineSoftmaxTest, AHundredThousandEqualRowsAreLearntAndNoMore) {
  const Shape shape = {.numeric = 1, .features = 2, .classes = 2};
  const std::vector<Row> rows(100'000, {.label = 1, .numeric = {7}, .index = {1}, .value = {1}});
  OnlineJob job(shape);
  job.Learn(rows, 1000);
  EXPECT_TRUE(AllFinite(job.parameters()));
  EXPECT_TRUE(AllFinite(job.scores()));
  EXPECT_GT(job.scores().back(), 0.999f);
  const auto before_sums = static_cast<size_t>(&job.Race().back() - job.parameters().data());
  for (size_t i = 0; i < before_sums; ++i) EXPECT_LT(std::abs(job.parameters()[i]), 2001.0f);
  // A counterexample is learnt from.
  const float before = job.Test(rows[0])[1];
  job.Learn(std::vector<Row>(200, {.label = 0, .numeric = {7}, .index = {1}, .value = {1}}));
  EXPECT_LT(job.Test(rows[0])[1], 0.2f) << before;
}

// ---- what predicts ----

TEST(OnlineSoftmaxTest, AModelOfThePredictingWeightsGivesTheSameScores) {
  for (const LearnerCase& setup : SomeLearners()) {
    for (const size_t learnt : {0, 20, 300}) {
      const Shape& shape = setup.shape;
      OnlineJob job(shape, setup.class_weights);
      job.Learn(LearnableRows(shape, learnt, 9));
      const std::vector<float> weights = job.model().PredictingWeights(job.parameters(), {});
      const SoftmaxRegression linear(shape.features, shape.classes, setup.class_weights);
      ASSERT_EQ(weights.size(), linear.parameter_count());
      const std::vector<Row> rows = LearnableRows(shape, 50, 10);
      std::vector<float> scores(rows.size() * shape.classes);
      const BatchLoss expected =
          linear.Compute(Pointers(rows), job.scaler(), weights, nullptr, scores);
      std::vector<float> own(scores.size());
      const BatchLoss loss =
          job.model().Model::Compute(Pointers(rows), job.scaler(), job.parameters(), nullptr, own);
      for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(own[i], scores[i], 2e-6);
      ExpectNear(loss.loss_sum, expected.loss_sum, 1e-5);
      ExpectNear(loss.weight_sum, expected.weight_sum, 1e-9);
    }
  }
}

TEST(OnlineSoftmaxTest, KeepsABlockForEachFeatureTheBiasAndAsManyAsTheRaceAndTheSumsFill) {
  const OnlineSoftmax two({.numeric = 2, .features = 5, .classes = 2});
  EXPECT_EQ(two.block_size(), 8u);
  EXPECT_EQ(two.parameter_count(), 8u * (5 + 1 + 2 + 2)) << "11 floats of the race, 9 sums";
  EXPECT_EQ(two.row_width(), 0u);
  const OnlineSoftmax four({.numeric = 2, .features = 5, .classes = 4, .wide = true});
  EXPECT_EQ(four.block_size(), 32u);
  EXPECT_EQ(four.parameter_count(), 32u * (2 + 1 + 1 + 2)) << "13 floats of the race, 36 sums";
  EXPECT_EQ(four.row_width(), 32u);
  EXPECT_EQ(four.penalised_end(), 0u);
}

}  // namespace
}  // namespace millrace
