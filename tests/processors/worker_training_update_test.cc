// What a worker makes of its rows: the update, and what it counts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "base/big_endian.h"
#include "models/local_solver.h"
#include "models/softmax_regression.h"
#include "processors/input_data_processor.h"
#include "processors/sliding_buffer_batches.h"
#include "tests/processors/worker_training_fixture.h"
#include "topics/figures_codec.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- the update ----

TEST(WorkerTrainingTest, TheUpdateIsTheGradientSummedOverTheBatchsRows) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(8);
  for (Clock clock = 0; clock < 2; ++clock) {
    const Gradient update = worker.UpdateOf(clock);
    const RowNumber begin(clock * 4);
    const Reference reference =
        ReferenceOf({begin, begin + 1, begin + 2, begin + 3}, SomeWeights(clock));
    const std::vector<float> values = DenseValues(update.update().slice());
    ASSERT_EQ(values.size(), kParameters);
    for (size_t i = 0; i < kParameters; ++i) {
      EXPECT_NEAR(values[i], reference.gradient[i], 1e-5) << "parameter " << i;
    }
    EXPECT_EQ(update.update().row_count(), 4u);
    EXPECT_EQ(update.update().weight_sum(), 4.0);
    EXPECT_EQ(update.update().new_rows(), 4u);
    EXPECT_EQ(update.update().rows_end(), begin + 4);
    EXPECT_NEAR(update.update().train_loss(), reference.loss / 4, 1e-6);
  }
}

TEST(WorkerTrainingTest, EachRowIsTestedByTheWeightsThatHaveNotSeenIt) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  EvaluationSums expected;
  for (RowNumber number = 0; number < 4; ++number) {
    const std::vector<double> p =
        Probabilities(WorkerRow(number), SomeWeights(0), WorkerRow(number).numeric[0]);
    expected.Add(WorkerRow(number).label,
                 std::vector<float>{static_cast<float>(p[0]), static_cast<float>(p[1])});
  }
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(FromProto(update.update().progressive()).cells, expected.cells);
  EXPECT_EQ(update.update().progressive().rows(), 4u);
  EXPECT_NEAR(update.update().progressive().log_loss(), expected.log_loss, 1e-5);
  EXPECT_FALSE(update.update().has_tail());
}

TEST(WorkerTrainingTest, ARowOfALaterEpochIsTrainedOnButNeitherTestedNorCountedAgain) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(1);
  worker.AddRowsAgain(3);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 4u);
  EXPECT_EQ(update.update().rows_end(), 4u);
  EXPECT_EQ(update.update().new_rows(), 1u);
  EXPECT_EQ(update.update().progressive().rows(), 1u);
}

TEST(WorkerTrainingTest, ABatchOfDamagedRowsIsAnEmptyUpdateOfItsClock) {
  TrainingWorker worker(TrainingWorker::Options());
  for (int row = 0; row < 4; ++row) worker.AddDamagedRow();
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 0u);
  EXPECT_EQ(update.update().weight_sum(), 0.0);
  EXPECT_FALSE(update.update().has_slice());
  EXPECT_EQ(update.update().rows_end(), 4u);
}

TEST(WorkerTrainingTest, ScalingKnowsTheNumbersOfTheRowsItScalesAndSendsTheirMoments) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_scaling(Training::RUNNING);
  TrainingWorker worker(options);
  worker.AddRows(4);
  Moments before(1);
  for (double value : {10.0, 20.0, 60.0}) before.Add({0, {value}, {}, {}});
  Moments batch(1);
  for (RowNumber number = 0; number < 4; ++number) batch.Add(WorkerRow(number));
  Weights answer = worker.Answer(0);
  ToProto(before, *answer.mutable_moments());
  const std::vector<Gradient> messages = worker.ReceiveAndTrain(answer);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(FromProto(messages[0].update().moments()), batch);

  Moments both = before;
  both.Merge(batch);
  const Scaler scaler(both);
  double loss = 0;
  for (RowNumber number = 0; number < 4; ++number) {
    const Row row = WorkerRow(number);
    const double scaled = scaler.Scale(0, row.numeric[0]);
    loss -= std::log(Probabilities(row, SomeWeights(0), scaled)[row.label]);
  }
  EXPECT_NEAR(messages[0].update().train_loss(), loss / 4, 1e-6);
}

TEST(WorkerTrainingTest, AWeightChangeIsWhatTheLocalSolverFinds) {
  for (const Training::Update::Solver solver :
       {Training::Update::LBFGS, Training::Update::LOCAL_SGD}) {
    WorkerOptions options = TrainingWorker::Options();
    Training::Update& update = *options.training.mutable_update();
    update.set_kind(Training::Update::WEIGHT_CHANGE);
    update.set_solver(solver);
    update.set_local_iterations(2);
    update.set_local_learning_rate(0.25);
    options.training.set_l2(0.01);
    TrainingWorker worker(options);
    worker.AddRows(4);
    const Gradient message = worker.UpdateOf(0);

    std::vector<Row> rows;
    for (RowNumber number = 0; number < 4; ++number) rows.push_back(WorkerRow(number));
    const std::vector<const Row*> view = {&rows[0], &rows[1], &rows[2], &rows[3]};
    LocalSolverOptions solver_options;
    solver_options.kind = solver == Training::Update::LBFGS ? LocalSolverOptions::Kind::kLbfgs
                                                            : LocalSolverOptions::Kind::kSgd;
    solver_options.iterations = 2;
    solver_options.learning_rate = 0.25;
    solver_options.l2 = 0.01;
    const LocalChange expected =
        SolveLocally(worker.model(), view, Scaler::Identity(1), SomeWeights(0), solver_options);
    EXPECT_EQ(DenseValues(message.update().slice()), expected.change);
    EXPECT_NE(expected.change, std::vector<float>(kParameters));
    EXPECT_EQ(message.update().row_count(), 4u);
    EXPECT_EQ(message.update().weight_sum(), 4.0);
  }
}

TEST(WorkerTrainingTest, OneStepOfLocalSgdIsTheMeanGradientTimesTheRate) {
  WorkerOptions options = TrainingWorker::Options();
  Training::Update& update = *options.training.mutable_update();
  update.set_kind(Training::Update::WEIGHT_CHANGE);
  update.set_solver(Training::Update::LOCAL_SGD);
  update.set_local_iterations(1);
  update.set_local_learning_rate(0.5);
  TrainingWorker worker(options);
  worker.AddRows(4);
  const std::vector<float> change = DenseValues(worker.UpdateOf(0).update().slice());
  const Reference reference = ReferenceOf({0, 1, 2, 3}, SomeWeights(0));
  for (size_t i = 0; i < kParameters; ++i) {
    EXPECT_NEAR(change[i], -0.5 * reference.gradient[i] / 4, 1e-5);
  }
}

TEST(WorkerTrainingTest, BatchesAreEvaluatedForTheLocalLogOnlyIfItIsAskedFor) {
  WorkerOptions options = TrainingWorker::Options();
  options.evaluate_batches = true;
  TrainingWorker worker(options);
  worker.AddRows(8);
  worker.UpdateOf(0);
  ASSERT_THAT(worker.output().evaluations, SizeIs(1));
  EXPECT_EQ(worker.output().evaluations[0].clock, 0u);
  EXPECT_EQ(worker.output().evaluations[0].figures.rows, 4u);
  EXPECT_EQ(worker.output().evaluations[0].rows_seen, 4u);
  worker.UpdateOf(1);
  EXPECT_EQ(worker.output().evaluations[0].rows_seen, 8u);
  TrainingWorker quiet(TrainingWorker::Options());
  quiet.AddRows(4);
  quiet.UpdateOf(0);
  EXPECT_THAT(quiet.output().evaluations, IsEmpty());
}

// ---- frozen rows and the tail ----

TEST(WorkerTrainingTest, RowsAfterTheFreezeAreTestedButNotLearntFrom) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_scaling(Training::RUNNING);
  options.worker = 1;
  options.workers = options.dealing.workers = 4;
  // This worker's rows are 1, 5, 9, 13, 17, ... of the stream.
  options.training.set_freeze_after_rows(9);
  TrainingWorker worker(options);
  worker.AddRows(8);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 2u);
  EXPECT_EQ(update.update().weight_sum(), 2.0);
  EXPECT_EQ(update.update().new_rows(), 2u);
  EXPECT_EQ(update.update().moments().count(0), 2.0);
  EXPECT_EQ(update.update().progressive().rows(), 4u);
  EXPECT_EQ(update.update().tail().rows(), 2u) << "by default the tail begins with the freeze";
  EXPECT_EQ(update.update().rows_end(), 4u);
  const Gradient frozen = worker.UpdateOf(1);
  EXPECT_EQ(frozen.update().row_count(), 0u);
  EXPECT_EQ(frozen.update().train_loss(), 0) << "of no rows, and a number: shards refuse others";
  EXPECT_FALSE(frozen.update().has_slice());
  EXPECT_EQ(frozen.update().new_rows(), 0u);
  EXPECT_EQ(frozen.update().progressive().rows(), 4u);
  EXPECT_EQ(frozen.update().tail().rows(), 4u);
}

TEST(WorkerTrainingTest, TheFrozenPartOfABatchLeavesNoTraceInTheGradient) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_freeze_after_rows(3);
  TrainingWorker worker(options);
  worker.AddRows(4);
  const std::vector<float> values = DenseValues(worker.UpdateOf(0).update().slice());
  const Reference reference = ReferenceOf({0, 1, 2}, SomeWeights(0));
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, TheTailIsCountedOverAllPartitionsAndLearntFrom) {
  WorkerOptions options = TrainingWorker::Options();
  options.worker = 2;
  options.workers = options.dealing.workers = 3;
  options.training.set_tail_after_rows(9);  // rows 2, 5, 8, 11: only the last
  TrainingWorker worker(options);
  worker.AddRows(4);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 4u);
  EXPECT_EQ(update.update().tail().rows(), 1u);
  EXPECT_EQ(update.update().progressive().rows(), 4u);
}

TEST(WorkerTrainingTest, TheTailMayBeginElsewhereThanTheFreeze) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_freeze_after_rows(3);
  options.training.set_tail_after_rows(1);
  TrainingWorker worker(options);
  worker.AddRows(4);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 3u);
  EXPECT_EQ(update.update().tail().rows(), 3u);
}

// ---- the buffer schedule ----

TEST(WorkerTrainingTest, NewRowsThatAMiniBatchLeavesOutAreTestedButDoNotCountAsTrainedOn) {
  TrainingBuffer buffer({.min_rows = 8, .max_rows = 8}, "b");
  SlidingBufferBatches source({.max_rows = 8, .minibatch_rows = 2}, kWorkerShape, buffer);
  InputDataProcessor input(0, kWorkerShape, source, 0);
  const SoftmaxRegression model(4, 2);
  WorkerTrainingProcessor training(TrainingWorker::Options(), model, source, 0);
  for (RowNumber number = 0; number < 5; ++number) {
    const std::string key = EncodeInputKey({number, 1});
    ASSERT_TRUE(input.Process({0, 0, key, EncodeRow(WorkerRow(number))}).ok());
  }
  const TrainingWorker answers(TrainingWorker::Options());
  ASSERT_TRUE(training.ProcessWeights(answers.Answer(0).SerializeAsString()).ok());
  WorkerOutput output;
  ASSERT_TRUE(training.TryTrain(output).ok());
  ASSERT_THAT(output.messages, SizeIs(1));
  Gradient update;
  ASSERT_TRUE(update.ParseFromString(output.messages[0].body->Joined()));
  EXPECT_EQ(update.update().progressive().rows(), 5u);
  EXPECT_EQ(update.update().row_count(), 2u);
  EXPECT_EQ(update.update().new_rows(), 2u);
  EXPECT_EQ(update.update().rows_end(), 5u);
  EXPECT_EQ(update.update().buffer_rows(), 5u);
  const Reference reference = ReferenceOf({3, 4}, SomeWeights(0));
  const std::vector<float> values = DenseValues(update.update().slice());
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

// ---- dead letters ----

TEST(WorkerTrainingTest, DeadLettersTravelWithTheUpdateThatCountsTheirRowsAndOnce) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(1);
  worker.AddDamagedRow();
  worker.AddRows(3);
  worker.AddDamagedRow();
  worker.AddRows(6);
  const Gradient first = worker.UpdateOf(0);
  ASSERT_EQ(first.update().dead_letters_size(), 1);
  EXPECT_EQ(first.update().dead_letters(0).offset(), 1);
  EXPECT_EQ(first.update().row_count(), 3u);
  const Gradient second = worker.UpdateOf(1);
  ASSERT_EQ(second.update().dead_letters_size(), 1);
  EXPECT_EQ(second.update().dead_letters(0).offset(), 5);
  EXPECT_EQ(worker.UpdateOf(2).update().dead_letters_size(), 0);
  EXPECT_EQ(worker.source().dead_letters().First(), std::nullopt);
}

TEST(WorkerTrainingTest, DeadLettersAreKeptUntilTheUpdateWasAccepted) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddDamagedRow();
  worker.AddRows(3);
  worker.UpdateOf(0);
  EXPECT_EQ(worker.source().dead_letters().First(), 0u);
  EXPECT_EQ(worker.Repeat()[0].update().dead_letters_size(), 1);
  worker.ReceiveAndTrain(worker.Answer(1));
  EXPECT_EQ(worker.source().dead_letters().First(), std::nullopt);
}

TEST(WorkerTrainingTest, WhatCameAfterTheLastUpdateTravelsWithTheLeave) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  worker.UpdateOf(0);
  const Status status = worker.input().Process({99, 0, "no row", "value"});
  ASSERT_TRUE(status.ok());
  worker.End();
  const std::vector<Gradient> messages = worker.ReceiveAndTrain(worker.Answer(1));
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].kind_case(), Gradient::kLeave);
  ASSERT_EQ(messages[0].leave().dead_letters_size(), 1);
  EXPECT_EQ(messages[0].leave().dead_letters(0).offset(), 99);
}

}  // namespace
}  // namespace millrace
