// What a worker among others sends of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include "models/online_softmax.h"
#include "tests/models/online_cases.h"
#include "tests/models/online_job.h"
#include "tests/models/plain_online_learner.h"

namespace millrace {
namespace {

using Shape = OnlineSoftmax::Shape;

constexpr size_t kRates = OnlineRace::kRates;
constexpr size_t kCurvature = OnlineRace::kCurvature;

TEST(OnlineSoftmaxTest, AWorkerAmongOthersSendsWhatRowsLikeItsOwnLeaveOfItsChange) {
  for (const LearnerCase& setup : SomeLearners()) {
    const Shape& shape = setup.shape;
    const std::vector<Row> rows = LearnableRows(shape, 50, 8);
    PlainOnlineLearner plain(shape.numeric, static_cast<uint32_t>(shape.features), shape.classes,
                             {setup.class_weights.begin(), setup.class_weights.end()});
    const auto learn = [&plain](const std::vector<Row>& learnt) {
      for (const Row& row : learnt) {
        plain.Learn(plain.FeaturesOf(row), row.label);
        plain.Count(row);
      }
    };
    const std::vector<Row> before = LearnableRows(shape, 200, 9);
    learn(before);
    const PlainOnlineLearner first = plain;
    learn(rows);
    OnlineJob job(shape, setup.class_weights);
    job.Learn(before);
    const OnlineJob::Change alone = job.ChangeBy(Pointers(rows));
    for (const uint32_t workers : {2, 6, 90}) {
      const OnlineJob::Change among = job.ChangeBy(Pointers(rows), workers);
      EXPECT_EQ(among.scores, alone.scores);
      const auto sent = plain.DampedSince(first, workers);
      const size_t block = job.model().block_size();
      for (uint32_t feature = 0; feature <= shape.features; ++feature) {
        for (size_t k = plain.FirstColumn(); k < shape.classes; ++k) {
          const size_t at = feature * block + (k - plain.FirstColumn()) * OnlineRace::kValues;
          EXPECT_EQ(among.parameters[at + kCurvature], alone.parameters[at + kCurvature]);
          for (size_t e = 0; e < kRates; ++e) {
            const auto found = sent.find({e, k, feature});
            const double expected = found == sent.end() ? 0 : found->second;
            const auto full = static_cast<double>(alone.parameters[at + e]);
            EXPECT_NEAR(static_cast<double>(among.parameters[at + e]), expected,
                        1e-3 * std::abs(full) + 1e-5)
                << workers << " workers, feature " << feature << ", class " << k << ", rate " << e;
          }
        }
      }
    }
  }
}

// Two columns that nearly say the same. Each worker learns by itself what their sum says, and
// hardly what their difference does: of that all changes count.
TEST(OnlineSoftmaxTest, WorkersAddUpWhatTheyLearnSlowlyAndNotWhatTheyLearnAtOnce) {
  const Shape shape = {.numeric = 2, .features = 2, .classes = 2};
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<Row> rows;
  for (int i = 0; i < 110; ++i) {
    const double both = normal(random);
    const double difference = normal(random);
    rows.push_back({.label = both + difference > 0 ? 1u : 0u,
                    .numeric = {both, both + 0.05 * difference},
                    .index = {},
                    .value = {}});
  }
  OnlineJob job(shape);
  job.Learn({rows.begin(), rows.begin() + 10});
  const std::vector<Row> batch(rows.begin() + 10, rows.begin() + 110);
  const OnlineJob::Change alone = job.ChangeBy(Pointers(batch));
  const OnlineJob::Change among = job.ChangeBy(Pointers(batch), 4);
  for (size_t e = 0; e < kRates; ++e) {
    const auto weight = [&](const OnlineJob::Change& change, size_t feature) {
      return change.parameters[feature * job.model().block_size() + e];
    };
    const float difference =
        (weight(among, 1) - weight(among, 0)) / (weight(alone, 1) - weight(alone, 0));
    const float sum = (weight(among, 1) + weight(among, 0)) / (weight(alone, 1) + weight(alone, 0));
    const bool is_slow = e == 0 || e == OnlineRace::kConstant.size();
    if (is_slow) {
      EXPECT_GT(difference, 0.8f) << e;
    }
    if (e == OnlineRace::kConstant.size()) continue;  // has learnt little of the sum, too
    EXPECT_GT(difference, 1.2f * sum) << e;
    EXPECT_LT(sum, 0.65f) << e;
  }
}

// The worst that may be: all workers learn the same from their rows, in each of many columns. (The
// batches of a job are of one row at first.)
void LearnAlike(size_t columns, uint32_t workers, size_t batch_rows, bool by_signs) {
  const OnlineSoftmax model({.numeric = columns, .features = columns, .classes = 0}, {},
                            {.of_classes = false, .error = ErrorLoss::kSquared});
  std::mt19937 random(workers);
  std::normal_distribution<double> normal;
  std::vector<float> parameters(model.parameter_count());
  Moments moments(columns);
  for (int round = 0; round < 60; ++round) {
    GradientSum change(model.parameter_count(), model.block_size());
    Moments added(columns);
    for (uint32_t worker = 0; worker < workers; ++worker) {
      std::vector<Row> rows(batch_rows);
      for (Row& row : rows) {
        const double both = by_signs ? (random() % 2 == 0 ? 1 : -1) : normal(random);
        row.numeric.assign(columns, both);
        row.target = 100 * static_cast<float>(both);
      }
      RunningScaler scaler(moments, true);
      std::vector<float> scores(batch_rows);
      model.Learn({.rows = Pointers(rows), .trained_end = batch_rows, .concurrent = workers},
                  scaler, parameters, {}, change, scores);
      added.Merge(scaler.added());
    }
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] += change.values()[i];
    moments.Merge(added);
  }
  for (size_t e = 0; e < kRates; ++e) {
    float sum = 0;  // leads to 100
    for (size_t i = 0; i < columns; ++i) sum += parameters[i * model.block_size() + e];
    EXPECT_LT(std::abs(sum - 100), 100)
        << columns << " columns, " << workers << " workers, batches of " << batch_rows << ", rate "
        << e << (by_signs ? ", signs" : ", numbers");
  }
}

TEST(OnlineSoftmaxTest, NoErrorGrowsWhereAllRowsAreAlike) {
  for (const size_t columns : {30, 300}) {
    for (const uint32_t workers : {2, 3, 4, 5, 8, 16, 32, 64}) {
      for (const size_t batch_rows : {1, 2, 8, 32}) {
        if (columns * workers * batch_rows > 16'000) continue;  // takes long
        LearnAlike(columns, workers, batch_rows, true);
        LearnAlike(columns, workers, batch_rows, false);
      }
    }
  }
}

// (Its sum is so large that a float does not grow by a row.)
TEST(OnlineSoftmaxTest, ABiasWithoutCurvatureTakesNothingFromWords) {
  const Shape shape = {.numeric = 0, .features = 2, .classes = 2};
  const std::vector<Row> rows(4, {.label = 1, .numeric = {}, .index = {0}, .value = {1}});
  OnlineJob job(shape);
  job.Learn(rows);
  const float before = job.ChangeBy(Pointers(rows), 4).parameters[0];
  const size_t bias = 2 * job.model().block_size() + kCurvature;
  OnlineJob same = job;
  same.parameters()[bias] = 0x1p24f;
  same.parameters()[kCurvature] = 0x1p24f;
  same.parameters()[kCurvature] = job.parameters()[kCurvature];
  EXPECT_LE(same.ChangeBy(Pointers(rows), 4).parameters[0], before);
}

// Words: each row has some that hardly another one has.
TEST(OnlineSoftmaxTest, WorkersOfRowsThatHaveLittleInCommonSendNearlyAllOfTheirSteps) {
  const Shape shape = {.numeric = 0, .features = 4000, .classes = 2};
  const auto rows_of = [](uint32_t first_word, size_t count) {
    std::vector<Row> rows;
    for (uint32_t i = 0; i < count; ++i) {
      Row& row = rows.emplace_back(Row{.label = i % 2, .numeric = {}, .index = {}, .value = {}});
      for (uint32_t word = 0; word < 10; ++word) {
        row.index.push_back(first_word + i * 10 + word);
        row.value.push_back(0.316f);
      }
    }
    return rows;
  };
  OnlineJob job(shape);
  job.Learn(rows_of(0, 200));
  const std::vector<Row> rows = rows_of(2000, 8);
  const OnlineJob::Change alone = job.ChangeBy(Pointers(rows));
  const size_t block = job.model().block_size();
  for (const uint32_t workers : {4U, 16U}) {
    const OnlineJob::Change among = job.ChangeBy(Pointers(rows), workers);
    for (size_t e = 0; e < kRates; ++e) {
      const size_t at = 2000 * block + e;
      EXPECT_GT(among.parameters[at] / alone.parameters[at], 0.9f) << workers << " " << e;
    }
  }
  // Of words that all rows have, all workers together send less than twice one's.
  std::vector<Row> same(64, rows.front());
  const size_t fastest = 2000 * block + kRates - 1;
  EXPECT_LT(job.ChangeBy(Pointers(same), 4).parameters[fastest] /
                job.ChangeBy(Pointers(same)).parameters[fastest],
            0.45f);
}

// Their losses would favour the rate that knows them by heart.
TEST(OnlineSoftmaxTest, LearnsFromARowAgainWithoutCountingItInTheRace) {
  const Shape shape = {.numeric = 2, .features = 6, .classes = 3};
  const std::vector<Row> rows = LearnableRows(shape, 60, 3);
  OnlineJob job(shape);
  job.Learn(rows);
  const std::vector<float> before(job.Race().begin(), job.Race().end());
  const std::vector<const Row*> all = Pointers(rows);
  const OnlineJob::Change again =
      job.ChangeBy({.rows = all, .trained_end = all.size(), .scaled_begin = all.size()});
  job.Apply(again);
  EXPECT_THAT(job.Race(), testing::ElementsAreArray(before));
  EXPECT_TRUE(std::ranges::any_of(again.parameters, [](float value) { return value != 0; }));
  EXPECT_GT(again.loss.weight_sum, 0);
  // Of a batch of both the new rows count, and no others.
  const OnlineJob::Change both =
      job.ChangeBy({.rows = all, .trained_end = all.size(), .scaled_begin = all.size() - 1});
  job.Apply(both);
  double counted = 0;
  for (size_t k = 0; k < 3; ++k) counted += job.Race()[OnlineRace::kRacers + k];
  double known = 0;
  for (size_t k = 0; k < 3; ++k) known += before[OnlineRace::kRacers + k];
  EXPECT_NEAR(counted, known * (1 - 1 / OnlineRace::kMemory) + 1, 1e-3);
}

TEST(OnlineSoftmaxTest, ManyWorkersForgetTheRaceAsFastAsOne) {
  const Shape shape = {.numeric = 1, .features = 1, .classes = 2};
  const auto raced = [&](size_t workers) {
    OnlineJob job(shape, {1, 0});  // rows of class 1 weigh nothing: they are forgetting only
    job.Learn(std::vector<Row>(300, {.label = 0, .numeric = {1}, .index = {}, .value = {}}));
    const std::vector<Row> rows(400 / workers,
                                {.label = 1, .numeric = {1}, .index = {}, .value = {}});
    const OnlineJob::Change change = job.ChangeBy(Pointers(rows), static_cast<uint32_t>(workers));
    for (size_t worker = 0; worker < workers; ++worker) job.Apply(change);
    return std::vector<float>(job.Race().begin(), job.Race().end());
  };
  const std::vector<float> one = raced(1);
  EXPECT_GT(one[OnlineRace::kRacers], 100.0f) << "rows of class 0";
  EXPECT_NEAR(one[OnlineRace::kRacers],
              2000 * (1 - std::exp(-300 / 2000.)) * std::exp(-400 / 2000.), 0.2);
  for (const size_t workers : {2, 4, 100}) {
    const std::vector<float> many = raced(workers);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(many[i], one[i], 1e-4f * one[i]);
  }
}

// Each forgets a part of the counts that it knows, which are those of an earlier round.
TEST(OnlineSoftmaxTest, StaysFiniteWhereAClassVanishesAndWorkersKnowItLate) {
  for (const size_t classes : {2, 3}) {
    const Shape shape = {.numeric = 1, .features = 1, .classes = classes};
    for (const size_t late : {1, 2, 5}) {
      OnlineJob job(shape);
      std::deque<OnlineJob::Change> in_flight;
      for (size_t round = 0; round < 60; ++round) {
        std::vector<Row> rows;
        for (size_t i = 0; i < 500; ++i) {
          const auto label = static_cast<uint32_t>(round < 20 ? i % classes : 1);
          rows.push_back({.label = label, .numeric = {1.0 + label}, .index = {}, .value = {}});
        }
        const auto concurrent = static_cast<uint32_t>(4 * (late + 1));
        in_flight.push_back(job.ChangeBy(Pointers(rows), concurrent));
        if (in_flight.size() <= late) continue;
        for (int worker = 0; worker < 4; ++worker) job.Apply(in_flight.front());
        in_flight.pop_front();
        ASSERT_TRUE(AllFinite(job.parameters())) << late << " " << round;
        ASSERT_TRUE(AllFinite(job.model().PredictingWeights(job.parameters(), {})));
      }
      EXPECT_TRUE(AllFinite(job.scores()));
      EXPECT_GT(job.scores().rbegin()[classes == 2 ? 0 : 1], 0.9f);
    }
  }
}

TEST(OnlineSoftmaxTest, ACurvatureBelowZeroIsNone) {
  const Shape shape = {.numeric = 1, .features = 1, .classes = 2};
  OnlineJob job(shape);
  const std::vector<Row> rows = LearnableRows(shape, 40, 3);
  job.Learn(rows);
  job.parameters()[kCurvature] = -1000;  // by a message that somebody has made up
  EXPECT_TRUE(AllFinite(job.ChangeBy(Pointers(rows), 4).parameters));
}

}  // namespace
}  // namespace millrace
