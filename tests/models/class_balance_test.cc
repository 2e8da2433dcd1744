#include "models/class_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "models/deep_fm.h"
#include "models/factorization_machine.h"
#include "models/softmax_regression.h"
#include "models/wide_softmax.h"
#include "tests/models/online_job.h"
#include "tests/models/plain_online_learner.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;

Moments RowsOfClasses(std::vector<uint64_t> rows) {
  Moments moments;
  moments.class_rows = std::move(rows);
  return moments;
}

TEST(ClassBalance, WeighsAllClassesAlikeBeforeTheFirstRow) {
  EXPECT_THAT(ClassBalance(Moments(), 2).Weights(), Each(1.0f));
  EXPECT_THAT(ClassBalance(Moments(7), 5).Weights(), Each(1.0f));
}

// numpy: n / (K * bincount(y)), with one more of each class.
TEST(ClassBalance, WeighsAClassByHowRareItHasBeen) {
  EXPECT_THAT(ClassBalance(RowsOfClasses({899, 99}), 2).Weights(),
              ElementsAre(FloatEq(1000.0f / 1800), FloatEq(1000.0f / 200)));
  EXPECT_THAT(ClassBalance(RowsOfClasses({5, 0, 1}), 3).Weights(),
              ElementsAre(FloatEq(9.0f / 18), FloatEq(9.0f / 3), FloatEq(9.0f / 6)));
}

TEST(ClassBalance, CountsTheRowsThatAreAddedForThoseAfterThem) {
  ClassBalance balance(RowsOfClasses({4, 1}), 2);
  EXPECT_FLOAT_EQ(balance.WeightOf(1), 7.0f / 4);
  balance.Add(1);
  balance.Add(1);
  EXPECT_FLOAT_EQ(balance.WeightOf(1), 9.0f / 8);
  EXPECT_FLOAT_EQ(balance.WeightOf(0), 9.0f / 10);
  EXPECT_THAT(balance.added(), ElementsAre(0u, 2u));
}

TEST(ClassBalance, WeighsNoRowMoreThanAHundredfold) {
  EXPECT_EQ(ClassBalance(RowsOfClasses({1'000'000, 0}), 2).WeightOf(1), 100.0f);
  EXPECT_EQ(ClassBalance(RowsOfClasses({1'000'000, 3'000}), 2).WeightOf(1), 100.0f);
  EXPECT_LT(ClassBalance(RowsOfClasses({1'000'000, 6'000}), 2).WeightOf(1), 100.0f);
}

TEST(ClassBalance, MergesRowsOfClassesWithMoments) {
  Moments moments(1);
  moments.Merge(RowsOfClasses({3, 0}));
  moments.Merge(RowsOfClasses({1, 2}));
  EXPECT_THAT(moments.class_rows, ElementsAre(4u, 2u));
  EXPECT_EQ(moments.columns(), 1u);
  EXPECT_TRUE(moments.IsValid());
  moments.class_rows[1] = Moments::kMostClassRows + 1;
  EXPECT_FALSE(moments.IsValid());
}

// One positive of a hundred, which a shifted column tells from the others, but not for sure.
std::vector<Row> RarePositives(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise;
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    row.label = random() % 100 == 0 ? 1 : 0;
    row.numeric = {noise(random) + 2.0 * row.label, noise(random)};
  }
  return rows;
}

// Of the last half of the rows.
double RecallOfRareClass(bool balances) {
  const std::vector<Row> rows = RarePositives(6000, 11);
  OnlineJob job({.numeric = 2, .features = 2, .classes = 2});
  if (balances) job.BalanceClasses();
  job.Learn(rows);
  double positives = 0;
  double found = 0;
  for (size_t i = rows.size() / 2; i < rows.size(); ++i) {
    if (rows[i].label == 0) continue;
    ++positives;
    if (job.scores()[2 * i + 1] > 0.5f) ++found;
  }
  return found / positives;
}

TEST(ClassBalance, FindsMostOfARareClassWhichALearnerOfPlainRowsMisses) {
  EXPECT_LT(RecallOfRareClass(false), 0.3);
  EXPECT_GT(RecallOfRareClass(true), 0.7);
}

TEST(ClassBalance, IsLearntWithRowByRowAsThePlainLearnerOfThePageDoes) {
  const OnlineSoftmax::Shape shape{.numeric = 2, .features = 2, .classes = 2};
  const std::vector<Row> rows = RarePositives(700, 12);
  OnlineJob job(shape);
  job.BalanceClasses();
  job.Learn(rows, 37);
  PlainOnlineLearner plain(2, 2, 2, {});
  double counts[] = {1, 1};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto features = plain.FeaturesOf(rows[i]);
    ASSERT_NEAR(job.scores()[2 * i + 1], plain.Test(features)[1], 1e-4) << i;
    double& count = counts[rows[i].label];
    plain.SetWeight(rows[i].label, std::min(100.0, (counts[0] + counts[1]) / (2 * count)));
    plain.Learn(features, rows[i].label);
    plain.Count(rows[i]);
    ++count;
  }
  EXPECT_THAT(job.moments().class_rows, ElementsAre(counts[0] - 1, counts[1] - 1));
}

TEST(ClassBalance, IsTheSameInBatchesOfAnySize) {
  const std::vector<Row> rows = RarePositives(300, 13);
  const auto learnt = [&](size_t batch_rows) {
    OnlineJob job({.numeric = 2, .features = 2, .classes = 2});
    job.BalanceClasses();
    job.Learn(rows, batch_rows);
    return job.parameters();
  };
  const std::vector<float> one_by_one = learnt(1);
  const std::vector<float> at_once = learnt(300);
  for (size_t i = 0; i < one_by_one.size(); ++i) {
    EXPECT_NEAR(one_by_one[i], at_once[i], 1e-4 * (1 + std::abs(at_once[i])));
  }
}

// What a model makes of a batch: the loss, and the gradients.
struct Made {
  BatchLoss loss;
  std::vector<float> gradient;
};
Made Make(const Model& model, const std::vector<Row>& rows) {
  std::mt19937 random(5);
  const std::vector<float> parameters = RandomFloats(model.parameter_count(), 0.3f, random);
  const std::vector<EmbeddingId> ids = {1, 2, 3};
  const std::vector<float> values = RandomFloats(ids.size() * model.row_width(), 0.3f, random);
  std::vector<float> row_gradient(values.size());
  GradientSum sum(parameters.size(), model.block_size());
  Made made;
  made.loss = model.Compute(Pointers(rows), Scaler::Identity(1), parameters,
                            {ids, values, row_gradient}, &sum, {});
  made.gradient.assign(sum.values().begin(), sum.values().end());
  made.gradient.insert(made.gradient.end(), row_gradient.begin(), row_gradient.end());
  return made;
}

TEST(WithClassWeights, ARowOfWeightTwoCountsAsThatRowTwiceInEveryModel) {
  std::mt19937 random(6);
  std::vector<Row> rows =
      RandomRows({.numeric = 1, .hashed = 3, .hashed_in_row = 2, .ids = {1, 2, 3}, .ids_in_row = 2},
                 2, 20, random);
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<SoftmaxRegression>(4, 2));
  models.push_back(std::make_unique<WideSoftmax>(1, 4, 2));
  models.push_back(std::make_unique<FactorizationMachine>(
      FactorizationMachine::Shape{.features = 4, .factors = 2}, ScoreLoss{}));
  models.push_back(std::make_unique<DeepFm>(DeepFm::Shape{4, 1, 2, 2, {3}}, ScoreLoss{}));
  for (const std::unique_ptr<Model>& model : models) {
    std::vector<Row> twice = rows;
    for (const Row& row : rows) {
      if (row.label == 1) twice.push_back(row);
    }
    const std::unique_ptr<Model> weighted = model->WithClassWeights({1, 2});
    ASSERT_NE(weighted, nullptr);
    const Made is = Make(*weighted, rows);
    const Made expected = Make(*model, twice);
    EXPECT_EQ(is.loss.weight_sum, expected.loss.weight_sum);
    EXPECT_NEAR(is.loss.loss_sum, expected.loss.loss_sum, 1e-4);
    for (size_t i = 0; i < is.gradient.size(); ++i) {
      EXPECT_NEAR(is.gradient[i], expected.gradient[i], 1e-4) << i;
    }
  }
}

TEST(WithClassWeights, IsNotOfARegression) {
  const FactorizationMachine machine({2, 2}, {.of_classes = false});
  EXPECT_EQ(machine.WithClassWeights({}), nullptr);
}

}  // namespace
}  // namespace millrace
