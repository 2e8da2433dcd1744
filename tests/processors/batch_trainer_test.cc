#include "processors/batch_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "models/online_softmax.h"
#include "models/softmax_regression.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kBatchRows = 6;

// The rows 10 to 15 of worker 1 of 3: row n is number 3 n + 1 of the stream.
class OnlineTrainer : public ::testing::Test {
 protected:
  OnlineTrainer() {
    options_.worker = 1;
    options_.workers = options_.dealing.workers = 3;
    options_.numeric_columns = 1;
    options_.training.mutable_update()->set_kind(Training::Update::ONLINE);
    for (size_t i = 0; i < kBatchRows; ++i) {
      rows_.push_back({.label = static_cast<uint32_t>(i % 2),
                       .numeric = {static_cast<double>(i * i % 5)},
                       .index = {1 + static_cast<uint32_t>(i % 3)},
                       .value = {1}});
    }
    for (const double value : {1.0, 2.0, 4.0}) {
      before_.Add({.label = 0, .numeric = {value}, .index = {}, .value = {}});
    }
  }

  // Rows [begin, end) of the six.
  Batch BatchOf(size_t begin = 0, size_t end = kBatchRows) const {
    Batch batch;
    for (size_t i = begin; i < end; ++i) {
      batch.rows.push_back(&rows_[i]);
      batch.numbers.push_back(RowNumber(10 + i));
    }
    return batch;
  }

  struct Trained {
    BatchTrainer::Result result;
    std::vector<float> change;
  };
  Trained Train(const Batch& batch) {
    BatchTrainer trainer(options_, model_);
    Trained trained{trainer.Train(batch, weights_, before_, {}), {}};
    const std::span<const float> change = trainer.gradient().values();
    trained.change.assign(change.begin(), change.end());
    return trained;
  }

  Moments MomentsOf(size_t begin, size_t end) const {
    Moments moments(1);
    for (size_t i = begin; i < end; ++i) moments.Add(rows_[i]);
    return moments;
  }

  WorkerOptions options_;
  const OnlineSoftmax model_{{.numeric = 1, .features = 4, .classes = 2}};
  std::vector<Row> rows_;
  Moments before_{1};
  std::vector<float> weights_ = std::vector<float>(model_.parameter_count());
};

TEST_F(OnlineTrainer, LearnsFromAllRowsOfABatchAndCountsThem) {
  const Trained trained = Train(BatchOf());
  EXPECT_THAT(trained.result.trained, SizeIs(6));
  EXPECT_EQ(trained.result.loss.weight_sum, 6);
  EXPECT_THAT(trained.result.change, IsEmpty()) << "it is sent as a gradient is";
  EXPECT_THAT(trained.change, Not(Each(0.0f)));
  EXPECT_EQ(trained.result.new_moments, MomentsOf(0, 6));
  EXPECT_EQ(trained.result.new_rows, 6u);
  EXPECT_EQ(trained.result.new_trained, 6u);
  EXPECT_EQ(trained.result.progressive.rows, 6u);
  EXPECT_NEAR(trained.result.progressive.log_loss, trained.result.loss.loss_sum, 1e-5)
      << "each row is tested before it is learnt from";
  EXPECT_EQ(trained.result.tail.rows, 0u);
  EXPECT_EQ(trained.result.whole.rows, 0u);
}

TEST_F(OnlineTrainer, SendsTheChangeOfTheLastBatchOnly) {
  BatchTrainer trainer(options_, model_);
  trainer.Train(BatchOf(0, 3), weights_, before_, {});
  trainer.Train(BatchOf(3, 6), weights_, before_, {});
  const std::vector<float> expected = Train(BatchOf(3, 6)).change;
  EXPECT_THAT(trainer.gradient().values(), testing::ElementsAreArray(expected));
}

TEST_F(OnlineTrainer, RowsFromTheFreezeOnAreTestedButNotLearnt) {
  options_.training.set_freeze_after_rows(3 * 14 + 1);  // the last two
  const Trained trained = Train(BatchOf());
  EXPECT_THAT(trained.result.trained, SizeIs(4));
  EXPECT_EQ(trained.result.new_rows, 6u);
  EXPECT_EQ(trained.result.new_trained, 4u);
  EXPECT_EQ(trained.result.progressive.rows, 6u);
  EXPECT_EQ(trained.result.tail.rows, 2u) << "the tail begins with the freeze";
  const Trained learnt = Train(BatchOf(0, 4));
  EXPECT_EQ(trained.change, learnt.change);
  EXPECT_EQ(trained.result.loss.loss_sum, learnt.result.loss.loss_sum);
  EXPECT_EQ(trained.result.new_moments, MomentsOf(0, 4));

  options_.training.set_freeze_after_rows(1);
  const Trained frozen = Train(BatchOf());
  EXPECT_THAT(frozen.result.trained, IsEmpty());
  EXPECT_THAT(frozen.change, Each(0.0f));
  EXPECT_EQ(frozen.result.new_moments, Moments(1));
  EXPECT_EQ(frozen.result.tail.rows, 6u);
}

TEST_F(OnlineTrainer, TheFiguresOfTheTailAreOfTheRowsFromItsBeginningOn) {
  options_.training.set_tail_after_rows(3 * 12 + 1);
  const Trained trained = Train(BatchOf());
  EXPECT_THAT(trained.result.trained, SizeIs(6)) << "which are learnt from";
  EXPECT_EQ(trained.result.tail.rows, 4u);
  EvaluationSums all = Train(BatchOf(0, 2)).result.progressive;
  all.Merge(trained.result.tail);
  EXPECT_EQ(all.cells, trained.result.progressive.cells);
  EXPECT_NEAR(all.log_loss, trained.result.progressive.log_loss, 1e-12);
}

TEST_F(OnlineTrainer, RowsThatAreNotNewCountForNothingButWhatIsLearnt) {
  Batch batch = BatchOf();
  batch.first_new = 2;
  const Trained trained = Train(batch);
  EXPECT_THAT(trained.result.trained, SizeIs(6));
  EXPECT_EQ(trained.result.loss.weight_sum, 6);
  EXPECT_EQ(trained.result.new_rows, 4u);
  EXPECT_EQ(trained.result.new_trained, 4u);
  EXPECT_EQ(trained.result.progressive.rows, 4u);
  EXPECT_EQ(trained.result.new_moments, MomentsOf(2, 6));
}

TEST_F(OnlineTrainer, RowsBeforeTheFirstTrainedAreOnlyTested) {
  Batch batch = BatchOf();
  batch.first_new = 2;
  batch.first_trained = 2;
  options_.evaluate_batches = true;
  const Trained trained = Train(batch);
  EXPECT_THAT(trained.result.trained, SizeIs(4));
  EXPECT_EQ(trained.change, Train(BatchOf(2, 6)).change);
  EXPECT_EQ(trained.result.whole.rows, 6u);
}

TEST_F(OnlineTrainer, WithoutScalingNumbersAreUsedAsTheyAre) {
  options_.training.set_scaling(Training::NONE);
  const Trained trained = Train(BatchOf());
  EXPECT_EQ(trained.result.new_moments, Moments(1));
  before_ = Moments(1);
  EXPECT_EQ(Train(BatchOf()).change, trained.change) << "whatever the rows before";
  options_.training.set_scaling(Training::RUNNING);
  EXPECT_NE(Train(BatchOf()).change, trained.change);
}

TEST_F(OnlineTrainer, WorkersAndUpdatesInFlightAreTheOnesThatKnowNothingOfEachOther) {
  const std::vector<float> three = Train(BatchOf()).change;
  options_.pipeline = 2;
  const std::vector<float> six = Train(BatchOf()).change;
  options_.workers = 6;
  options_.pipeline = 1;
  EXPECT_EQ(Train(BatchOf()).change, six);
  EXPECT_NE(six, three);
  const Batch batch = BatchOf();
  RunningScaler scaler(before_, true);
  GradientSum expected(model_.parameter_count(), model_.block_size());
  std::vector<float> scores(kBatchRows * 2);
  model_.Learn({.rows = batch.rows, .trained_end = kBatchRows, .concurrent = 6}, scaler, weights_,
               {}, expected, scores);
  EXPECT_THAT(six, testing::ElementsAreArray(expected.values()));
}

TEST_F(OnlineTrainer, BalancedRowsAreCountedByClassAsTheyAreLearntFrom) {
  EXPECT_THAT(Train(BatchOf()).result.new_moments.class_rows, IsEmpty()) << "nobody asks for it";
  const std::vector<float> plain = Train(BatchOf()).change;
  options_.balances_classes = true;
  options_.training.set_freeze_after_rows(3 * 14 + 1);  // the last two
  before_.class_rows = {40, 2};
  const Trained trained = Train(BatchOf());
  EXPECT_THAT(trained.result.new_moments.class_rows, ElementsAre(2u, 2u));
  // By the rows before each: of the classes 0, 1, 0, 1.
  EXPECT_NEAR(trained.result.loss.weight_sum,
              44.0 / (2 * 41) + 45.0 / (2 * 3) + 46.0 / (2 * 42) + 47.0 / (2 * 4), 1e-5);
  EXPECT_NE(trained.change, plain);
}

TEST(BatchTrainerTest, AGradientIsBalancedByTheRowsBeforeAndThoseOfItsBatch) {
  std::vector<Row> rows(3);
  rows[1].label = 1;
  WorkerOptions options;
  options.balances_classes = true;
  const SoftmaxRegression model(0, 2);
  const std::vector<float> weights(model.parameter_count());
  Moments before;
  before.class_rows = {10, 0};
  BatchTrainer trainer(options, model);
  Batch batch;
  for (size_t i = 0; i < rows.size(); ++i) {
    batch.rows.push_back(&rows[i]);
    batch.numbers.push_back(RowNumber(i));
  }
  const BatchTrainer::Result result = trainer.Train(batch, weights, before, {});
  EXPECT_THAT(result.new_moments.class_rows, ElementsAre(2u, 1u));
  const double of_0 = 15.0 / (2 * 13);
  const double of_1 = 15.0 / (2 * 2);
  EXPECT_NEAR(result.loss.weight_sum, 2 * of_0 + of_1, 1e-6);
  EXPECT_NEAR(result.loss.loss_sum, (2 * of_0 + of_1) * std::log(2.0), 1e-6);
  EXPECT_NEAR(trainer.gradient().values()[1], 0.5 * (2 * of_0 - of_1), 1e-6);
  EXPECT_NEAR(result.progressive.log_loss, 3 * std::log(2.0), 1e-6) << "figures are not weighted";
}

}  // namespace
}  // namespace millrace
