// A worker's batch of a regression: what it learns relative to, and which rows are predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "models/factorization_machine.h"
#include "models/online_softmax.h"
#include "processors/batch_trainer.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::Not;

constexpr size_t kRows = 6;

class RegressionTrainer : public ::testing::TestWithParam<bool> {
 protected:
  RegressionTrainer() {
    options_.classes = 0;
    options_.numeric_columns = 1;
    if (GetParam()) {
      model_ = std::make_unique<OnlineSoftmax>(
          OnlineSoftmax::Shape{.numeric = 1, .features = 1, .classes = 0});
    } else {
      model_ = std::make_unique<FactorizationMachine>(
          FactorizationMachine::Shape{.features = 1, .has_ids = false},
          ScoreLoss{.of_classes = false});
    }
    for (size_t i = 0; i < kRows; ++i) {
      Row row;
      row.numeric = {static_cast<double>(i * i % 5)};
      row.target = 1000.0f + static_cast<float>(i * i % 7);
      rows_.push_back(row);
    }
  }

  struct Trained {
    BatchTrainer::Result result;
    std::vector<float> change;
  };
  Trained Train(size_t first_new = 0) {
    Batch batch;
    batch.first_new = first_new;
    for (size_t i = 0; i < kRows; ++i) {
      batch.rows.push_back(&rows_[i]);
      batch.numbers.push_back(RowNumber(i));
    }
    BatchTrainer trainer(options_, *model_);
    const std::vector<float> weights(model_->parameter_count());
    Trained trained{trainer.Train(batch, weights, before_, {}), {}};
    const std::span<const float> change = trainer.gradient().values();
    trained.change.assign(change.begin(), change.end());
    return trained;
  }

  WorkerOptions options_;
  std::unique_ptr<Model> model_;
  std::vector<Row> rows_;
  Moments before_{1};
};

INSTANTIATE_TEST_SUITE_P(OnlineOrByGradients, RegressionTrainer, testing::Bool());

TEST_P(RegressionTrainer, TheFirstRowOfAllHasNoPredictionAndTheOthersKnowItsTarget) {
  const Trained trained = Train();
  EXPECT_EQ(trained.result.progressive.rows, kRows);
  EXPECT_EQ(trained.result.progressive.unpredicted, 1u);
  EXPECT_LT(trained.result.progressive.absolute_error, 20)
      << "targets are near a thousand, and so are the predictions";
  EXPECT_EQ(trained.result.new_moments.target.count, kRows);
  EXPECT_EQ(trained.result.new_moments.target.errors, kRows - 1);
  EXPECT_THAT(trained.change, Not(Each(0.0f))) << "it is learnt from";
}

TEST_P(RegressionTrainer, WithTargetsKnownBeforeEveryRowHasAPrediction) {
  for (const float target : {990.0f, 1010.0f}) before_.target.Add(target);
  const Trained trained = Train();
  EXPECT_EQ(trained.result.progressive.unpredicted, 0u);
  EXPECT_EQ(trained.result.new_moments.target.errors, kRows);
  TargetMoments expected;
  for (const Row& row : rows_) expected.Add(row.target);
  EXPECT_EQ(trained.result.new_moments.target.count, expected.count);
  EXPECT_EQ(trained.result.new_moments.target.mean, expected.mean);
  EXPECT_EQ(trained.result.new_moments.target.m2, expected.m2);
}

// (With gradients the batch itself says what it learns relative to, but not what it predicts.)
TEST_P(RegressionTrainer, APredictionDoesNotKnowItsOwnTarget) {
  for (const float target : {990.0f, 1010.0f}) before_.target.Add(target);
  const double before = Train().result.progressive.absolute_error;
  const auto last = static_cast<double>(rows_.back().target);
  rows_.back().target += 500;
  const double after = Train().result.progressive.absolute_error;
  EXPECT_NEAR(after - before, 500, 2 * (last - 990))
      << "the last row is as wrong as its target moves; the others are predicted as before";
}

TEST_P(RegressionTrainer, RowsThatAreNotNewAreCountedNowhere) {
  for (const float target : {990.0f, 1010.0f}) before_.target.Add(target);
  const Trained trained = Train(2);
  EXPECT_EQ(trained.result.progressive.rows, 4u);
  EXPECT_EQ(trained.result.new_moments.target.count, 4);
  EXPECT_EQ(trained.result.new_moments.target.errors, 4);
}

TEST_P(RegressionTrainer, RowsThatAreOnlyTestedTellNoTarget) {
  options_.training.set_freeze_after_rows(4);
  const Trained trained = Train();
  EXPECT_EQ(trained.result.progressive.rows, kRows);
  EXPECT_EQ(trained.result.tail.rows, 2u);
  EXPECT_EQ(trained.result.new_moments.target.count, 4);
  EXPECT_EQ(trained.result.new_moments.target.errors, 3);
  options_.training.set_freeze_after_rows(1);
  rows_.erase(rows_.begin());
  rows_.push_back(rows_.front());
  BatchTrainer trainer(options_, *model_);
  Batch frozen;
  frozen.rows = {&rows_[0], &rows_[1]};
  frozen.numbers = {RowNumber(1), RowNumber(2)};
  const std::vector<float> weights(model_->parameter_count());
  const BatchTrainer::Result result = trainer.Train(frozen, weights, before_, {});
  EXPECT_EQ(result.progressive.unpredicted, 2u) << "no target is ever known";
  EXPECT_EQ(result.new_moments, Moments(1));
}

TEST_P(RegressionTrainer, WithoutScalingTargetsCountAllTheSame) {
  options_.training.set_scaling(Training::NONE);
  const Trained trained = Train();
  EXPECT_EQ(trained.result.new_moments.target.count, kRows);
  EXPECT_EQ(trained.result.new_moments.count[0], 0);
}

// A factorization machine of two classes begins at how frequent they have been.
TEST(FactorizationTrainer, CountsTheRowsOfEachClass) {
  WorkerOptions options;
  options.classes = 2;
  const FactorizationMachine model({.features = 0, .factors = 1}, {});
  std::vector<Row> rows(4);
  rows[1].label = 1;
  Batch batch;
  for (size_t i = 0; i < rows.size(); ++i) {
    batch.rows.push_back(&rows[i]);
    batch.numbers.push_back(RowNumber(i));
  }
  BatchTrainer trainer(options, model);
  Moments before(0);
  const std::vector<float> weights(1);
  const BatchTrainer::Result first = trainer.Train(batch, weights, before, {});
  EXPECT_EQ(first.new_moments.class_rows, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(first.new_moments.target, TargetMoments());
  EXPECT_NEAR(first.loss.loss_sum, 4 * std::log(2), 1e-5) << "it is tested by the rows before";
  before = first.new_moments;
  const double log_loss = -(3 * std::log(0.7) + std::log(0.3));
  EXPECT_NEAR(trainer.Train(batch, weights, before, {}).loss.loss_sum, log_loss, 1e-5);
  batch.first_new = 2;
  EXPECT_EQ(trainer.Train(batch, weights, before, {}).new_moments.class_rows,
            (std::vector<uint64_t>{2, 0}));
  options.training.set_freeze_after_rows(3);
  EXPECT_EQ(BatchTrainer(options, model).Train(batch, weights, before, {}).new_moments.class_rows,
            (std::vector<uint64_t>{1, 0}));
}

// Weights make others of the frequencies; balanced ones follow the batch's own labels, besides.
TEST(FactorizationTrainer, WithClassWeightsScoresBeginAtZero) {
  WorkerOptions options;
  options.classes = 2;
  const FactorizationMachine plain({.features = 0, .factors = 1}, {});
  const std::unique_ptr<Model> model = plain.WithClassWeights({1, 1});
  Row row;
  row.label = 1;
  Batch batch;
  batch.rows = {&row};
  batch.numbers = {RowNumber(0)};
  Moments before(0);
  before.class_rows = {90, 10};
  for (const bool balances : {false, true}) {
    options.balances_classes = balances;
    BatchTrainer trainer(options, *model);
    const BatchTrainer::Result result = trainer.Train(batch, std::vector<float>(1), before, {});
    EXPECT_EQ(result.new_moments.class_rows,
              balances ? (std::vector<uint64_t>{0, 1}) : std::vector<uint64_t>());
    EXPECT_NEAR(result.progressive.log_loss, std::log(2), 1e-6);
  }
}

class GradientOfARegression : public RegressionTrainer {};
INSTANTIATE_TEST_SUITE_P(ByGradients, GradientOfARegression, testing::Values(false));

TEST_P(GradientOfARegression, HasNoUnit) {
  const std::vector<float> expected = Train().change;
  for (Row& row : rows_) row.target = row.target * 1024 + 4096;
  const std::vector<float> is = Train().change;
  for (size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], expected[i], 1e-3);
}

}  // namespace
}  // namespace millrace
