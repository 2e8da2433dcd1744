#include "processors/worker_training_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "models/local_solver.h"
#include "models/softmax_regression.h"
#include "processors/input_data_processor.h"
#include "processors/one_pass_batches.h"
#include "processors/sliding_buffer_batches.h"
#include "topics/figures_codec.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// One numeric column, three hashed features and a bias in two classes: ten parameters.
const RowShape kShape = {.numeric = 1, .features = 4, .classes = 2};
constexpr size_t kParameters = 10;

Row RowOf(RowNumber number) {
  return {static_cast<uint32_t>(number * 7 / 3 % 2),
          {static_cast<double>(number * number % 11)},
          {1 + static_cast<uint32_t>(number % 3)},
          {0.5f + static_cast<float>(number % 2)}};
}

std::vector<float> SomeWeights(Clock clock) {
  std::vector<float> weights;
  for (size_t i = 0; i < kParameters; ++i) {
    weights.push_back(0.125f * static_cast<float>((i * 5 + clock * 3) % 9) - 0.5f);
  }
  return weights;
}

// The mean-free softmax of a row, written down plainly and in doubles.
std::vector<double> Probabilities(const Row& row, const std::vector<float>& weights,
                                  double scaled) {
  std::vector<double> logits(2);
  for (size_t k = 0; k < 2; ++k) {
    logits[k] = weights[k] * scaled + weights[8 + k];
    for (size_t i = 0; i < row.index.size(); ++i) {
      logits[k] += static_cast<double>(weights[row.index[i] * 2 + k]) * row.value[i];
    }
  }
  const double sum = std::exp(logits[0]) + std::exp(logits[1]);
  return {std::exp(logits[0]) / sum, std::exp(logits[1]) / sum};
}

struct Reference {
  std::vector<double> gradient = std::vector<double>(kParameters);
  double loss = 0;
};

// Sums over the rows; the numeric column is used as it is.
Reference ReferenceOf(const std::vector<RowNumber>& numbers, const std::vector<float>& weights) {
  Reference reference;
  for (RowNumber number : numbers) {
    const Row row = RowOf(number);
    const std::vector<double> p = Probabilities(row, weights, row.numeric[0]);
    reference.loss -= std::log(p[row.label]);
    for (size_t k = 0; k < 2; ++k) {
      const double residual = p[k] - (row.label == k ? 1 : 0);
      reference.gradient[k] += residual * row.numeric[0];
      reference.gradient[8 + k] += residual;
      for (size_t i = 0; i < row.index.size(); ++i) {
        reference.gradient[row.index[i] * 2 + k] += residual * row.value[i];
      }
    }
  }
  return reference;
}

std::vector<float> Values(const Slice& slice) {
  std::vector<float> values(slice.end() - slice.begin());
  AddSlice(slice, 1.0f, values);
  return values;
}

// A worker, its rows, and a server played by the test.
class Worker {
 public:
  explicit Worker(const WorkerOptions& options, size_t batch_rows = 4, RowNumber first_row = 0)
      : options_(options),
        source_(batch_rows),
        input_(options.worker, kShape, source_, first_row),
        next_row_(first_row),
        training_(options, model_, source_) {}

  static WorkerOptions Options() {
    WorkerOptions options;
    options.training.set_scaling(Training::NONE);
    options.numeric_columns = 1;
    return options;
  }

  void AddRows(RowNumber count) {
    for (; count > 0; --count) {
      Input(EncodeBigEndian64(next_row_), EncodeRow(RowOf(next_row_)));
      ++next_row_;
    }
  }
  // Rows of a later epoch.
  void AddRowsAgain(RowNumber count) {
    for (; count > 0; --count) {
      Row row = RowOf(next_row_);
      row.replayed = true;
      Input(EncodeBigEndian64(next_row_), EncodeRow(row));
      ++next_row_;
    }
  }
  void AddDamagedRow() { Input(EncodeBigEndian64(next_row_++), "damaged"); }
  void End() { Input(EncodeBigEndian64(next_row_), EncodeEnd(next_row_)); }

  Weights Answer(Clock clock, ShardId shard = 0) const {
    Weights message;
    message.set_epoch(options_.epoch);
    message.set_shard(shard);
    message.set_clock(clock);
    message.set_released(true);
    const KeyRange range = RangeOfShard(shard, options_.shards, kParameters);
    const std::vector<float> weights = SomeWeights(clock);
    EncodeDenseSlice(std::span(weights).subspan(range.begin, range.size()), range,
                     *message.mutable_slice());
    if (shard == 0) ToProto(Moments(1), *message.mutable_moments());
    message.mutable_rows()->set_end(std::min<uint64_t>(clock * kBatchRows, next_row_));
    return message;
  }
  static Weights Held(Weights message) {
    message.set_released(false);
    message.clear_slice();
    message.clear_moments();
    return message;
  }
  static Weights Replaced(Weights message) {
    message.set_replaced(true);
    return message;
  }
  static Weights Left(Weights message) {
    message.set_left(true);
    message.clear_slice();
    message.clear_moments();
    return message;
  }

  Status Receive(const Weights& message) {
    return training_.ProcessWeights(message.SerializeAsString());
  }

  // The messages that TryTrain leads to.
  std::vector<Gradient> Train() {
    output_.Clear();
    const Status status = training_.TryTrain(output_);
    EXPECT_TRUE(status.ok()) << status;
    return Messages();
  }
  std::vector<Gradient> ReceiveAndTrain(const Weights& message) {
    const Status status = Receive(message);
    EXPECT_TRUE(status.ok()) << status;
    return Train();
  }
  // The one update of this clock's answer.
  Gradient UpdateOf(Clock clock) {
    const std::vector<Gradient> messages = ReceiveAndTrain(Answer(clock));
    EXPECT_THAT(messages, SizeIs(1));
    if (messages.size() != 1) return {};
    EXPECT_EQ(messages[0].kind_case(), Gradient::kUpdate);
    EXPECT_EQ(messages[0].clock(), clock);
    return messages[0];
  }
  std::vector<Gradient> Repeat() {
    output_.Clear();
    training_.Repeat(output_);
    return Messages();
  }
  std::vector<Gradient> Start() {
    output_.Clear();
    training_.Start(output_);
    return Messages();
  }

  const WorkerOutput& output() const { return output_; }
  WorkerTrainingProcessor& training() { return training_; }
  InputDataProcessor& input() { return input_; }
  const BatchSource& source() const { return source_; }
  const Model& model() const { return model_; }
  std::vector<ShardId> receivers() const {
    std::vector<ShardId> shards;
    for (const WorkerOutput::Message& message : output_.messages) shards.push_back(message.shard);
    return shards;
  }

 private:
  void Input(const std::string& key, const std::string& value) {
    const Status status = input_.Process({offset_++, 0, key, value});
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<Gradient> Messages() const {
    std::vector<Gradient> messages;
    for (const WorkerOutput::Message& message : output_.messages) {
      EXPECT_TRUE(messages.emplace_back().ParseFromString(*message.body));
    }
    return messages;
  }

  static constexpr RowNumber kBatchRows = 4;
  WorkerOptions options_;
  SoftmaxRegression model_{4, 2};
  OnePassBatches source_;
  InputDataProcessor input_;
  RowNumber next_row_;
  Offset offset_ = 0;
  WorkerTrainingProcessor training_;
  WorkerOutput output_;
};

// ---- the joints ----

TEST(WorkerTrainingTest, AtStartItAsksEveryShardWhereItStands) {
  WorkerOptions options = Worker::Options();
  options.shards = 3;
  options.worker = 5;
  options.workers = 6;
  options.epoch = 8;
  Worker worker(options);
  const std::vector<Gradient> asks = worker.Start();
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 1, 2}));
  for (const Gradient& ask : asks) {
    EXPECT_EQ(ask.kind_case(), Gradient::kAsk);
    EXPECT_EQ(ask.worker(), 5u);
    EXPECT_EQ(ask.epoch(), 8u);
    EXPECT_FALSE(ask.has_clock());
  }
  EXPECT_FALSE(worker.training().answered());
}

TEST(WorkerTrainingTest, AClockWithoutRowsIsOwedUntilTheCompletingRowComes) {
  Worker worker(Worker::Options());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty());
  EXPECT_TRUE(worker.training().owes_update());
  for (int row = 0; row < 3; ++row) {
    worker.AddRows(1);
    EXPECT_THAT(worker.Train(), IsEmpty());
  }
  worker.AddRows(1);
  const std::vector<Gradient> messages = worker.Train();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].kind_case(), Gradient::kUpdate);
  EXPECT_EQ(messages[0].clock(), 0u);
  EXPECT_FALSE(worker.training().owes_update());
}

TEST(WorkerTrainingTest, WhatAZombiesServerSaysUnaskedCorrectsNoClockWhoseRowsHaveNotCome) {
  Worker worker(Worker::Options());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(4)), IsEmpty());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2)), IsEmpty());
  worker.AddRows(20);
  const std::vector<Gradient> updates = worker.Train();
  ASSERT_THAT(updates, SizeIs(1));
  EXPECT_EQ(updates[0].clock(), 4u);
}

// Nobody may be silent, and nobody leave, because of a clock that somebody made up.
TEST(WorkerTrainingTest, AForgedClockThatIsCorrectedDoesNotSilenceTheWorker) {
  Worker worker(Worker::Options());
  worker.AddRows(4);
  worker.UpdateOf(0);  // and it is lost
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(100)), IsEmpty());
  ASSERT_THAT(worker.Repeat(), SizeIs(1));
  // For clock 100 it has let go of the rows of clock 0.
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty());
  const std::vector<Gradient> asks = worker.Repeat();
  ASSERT_THAT(asks, SizeIs(2));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kRestore);
  EXPECT_FALSE(asks[0].has_clock()) << "it does not believe in clock 100";
  EXPECT_EQ(asks[1].kind_case(), Gradient::kAsk);
}

TEST(WorkerTrainingTest, ALeaveForAForgedClockIsTakenBackWhenItIsCorrected) {
  Worker worker(Worker::Options());
  worker.AddRows(8);
  worker.End();
  worker.UpdateOf(0);
  worker.ReceiveAndTrain(worker.Answer(100));
  for (const Gradient& leave : worker.Repeat()) {
    EXPECT_TRUE(leave.has_leave());
    EXPECT_EQ(leave.clock(), 100u) << "no server takes it";
  }
  const std::vector<Gradient> again = worker.ReceiveAndTrain(worker.Answer(0));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_TRUE(again[0].has_update());
  EXPECT_EQ(again[0].clock(), 0u);
  EXPECT_EQ(worker.UpdateOf(1).clock(), 1u);
}

TEST(WorkerTrainingTest, RowsWithoutWeightsWaitForThem) {
  Worker worker(Worker::Options());
  worker.AddRows(12);
  EXPECT_THAT(worker.Train(), IsEmpty());
  EXPECT_FALSE(worker.training().owes_update());
  EXPECT_EQ(worker.UpdateOf(0).update().row_count(), 4u);
  EXPECT_THAT(worker.Train(), IsEmpty()) << "one update for a clock, however many rows wait";
  EXPECT_EQ(worker.UpdateOf(1).update().rows_end(), 8u);
}

TEST(WorkerTrainingTest, AnAnswerThatIsRepeatedLeadsToNoSecondUpdate) {
  Worker worker(Worker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty());
  worker.UpdateOf(1);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty()) << "a zombie's late answer";
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1)), IsEmpty());
  EXPECT_EQ(worker.training().progress().clock, 1u);
}

TEST(WorkerTrainingTest, RepeatsTheSameBytesUntilTheUpdateIsAnswered) {
  Worker worker(Worker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  const std::string sent = *worker.output().messages[0].body;
  for (int i = 0; i < 3; ++i) {
    worker.Repeat();
    ASSERT_THAT(worker.output().messages, SizeIs(1));
    EXPECT_EQ(*worker.output().messages[0].body, sent);
  }
  worker.UpdateOf(1);
  worker.Repeat();
  ASSERT_THAT(worker.output().messages, SizeIs(1));
  EXPECT_NE(*worker.output().messages[0].body, sent);
}

TEST(WorkerTrainingTest, WithNothingUnansweredRepeatIsSilent) {
  Worker worker(Worker::Options());
  worker.AddRows(4);
  worker.UpdateOf(0);
  worker.ReceiveAndTrain(worker.Answer(1));
  EXPECT_THAT(worker.Repeat(), IsEmpty()) << "clock 1 is owed, for want of rows";
}

TEST(WorkerTrainingTest, RepeatAsksAgainWhoHasNotAnswered) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.Start();
  EXPECT_THAT(worker.training().SilentShards(), ElementsAreArray<ShardId>({0, 1}));
  ASSERT_TRUE(worker.Receive(worker.Answer(0, 1)).ok());
  EXPECT_THAT(worker.training().SilentShards(), ElementsAreArray<ShardId>({0}));
  const std::vector<Gradient> asks = worker.Repeat();
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
}

TEST(WorkerTrainingTest, ATaskThatStartsAnewSendsTheSameUpdateOfTheSameClock) {
  WorkerOptions options = Worker::Options();
  options.training.set_scaling(Training::RUNNING);
  Worker first(options);
  first.AddRows(20);
  for (Clock clock = 0; clock < 3; ++clock) first.UpdateOf(clock);
  Gradient sent = first.UpdateOf(3);
  Worker second(options, 4, 12);
  second.AddRows(8);
  Gradient again = second.UpdateOf(3);
  sent.mutable_update()->clear_attempt();
  again.mutable_update()->clear_attempt();
  EXPECT_EQ(again.SerializeAsString(), sent.SerializeAsString());
}

TEST(WorkerTrainingTest, AnAnswerThatIsNotReleasedHoldsTheWorkerBack) {
  Worker worker(Worker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  EXPECT_THAT(worker.ReceiveAndTrain(Worker::Held(worker.Answer(1))), IsEmpty());
  EXPECT_FALSE(worker.training().owes_update());
  const std::vector<Gradient> asks = worker.Repeat();
  ASSERT_THAT(asks, SizeIs(1)) << "the release may have gone by unread";
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_FALSE(asks[0].has_clock()) << "it asks for what is new";
  EXPECT_EQ(worker.UpdateOf(1).clock(), 1u);
  EXPECT_THAT(worker.ReceiveAndTrain(Worker::Held(worker.Answer(1))), IsEmpty());
}

// ---- the update ----

TEST(WorkerTrainingTest, TheUpdateIsTheGradientSummedOverTheBatchsRows) {
  Worker worker(Worker::Options());
  worker.AddRows(8);
  for (Clock clock = 0; clock < 2; ++clock) {
    const Gradient update = worker.UpdateOf(clock);
    const RowNumber begin(clock * 4);
    const Reference reference =
        ReferenceOf({begin, begin + 1, begin + 2, begin + 3}, SomeWeights(clock));
    const std::vector<float> values = Values(update.update().slice());
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
  Worker worker(Worker::Options());
  worker.AddRows(4);
  EvaluationSums expected;
  for (RowNumber number = 0; number < 4; ++number) {
    const std::vector<double> p =
        Probabilities(RowOf(number), SomeWeights(0), RowOf(number).numeric[0]);
    expected.Add(RowOf(number).label,
                 std::vector<float>{static_cast<float>(p[0]), static_cast<float>(p[1])});
  }
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(FromProto(update.update().progressive()).cells, expected.cells);
  EXPECT_EQ(update.update().progressive().rows(), 4u);
  EXPECT_NEAR(update.update().progressive().log_loss(), expected.log_loss, 1e-5);
  EXPECT_FALSE(update.update().has_tail());
}

TEST(WorkerTrainingTest, ARowOfALaterEpochIsTrainedOnButNeitherTestedNorCountedAgain) {
  Worker worker(Worker::Options());
  worker.AddRows(1);
  worker.AddRowsAgain(3);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 4u);
  EXPECT_EQ(update.update().rows_end(), 4u);
  EXPECT_EQ(update.update().new_rows(), 1u);
  EXPECT_EQ(update.update().progressive().rows(), 1u);
}

TEST(WorkerTrainingTest, ABatchOfDamagedRowsIsAnEmptyUpdateOfItsClock) {
  Worker worker(Worker::Options());
  for (int row = 0; row < 4; ++row) worker.AddDamagedRow();
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 0u);
  EXPECT_EQ(update.update().weight_sum(), 0.0);
  EXPECT_FALSE(update.update().has_slice());
  EXPECT_EQ(update.update().rows_end(), 4u);
}

TEST(WorkerTrainingTest, ScalingKnowsTheNumbersOfTheRowsItScalesAndSendsTheirMoments) {
  WorkerOptions options = Worker::Options();
  options.training.set_scaling(Training::RUNNING);
  Worker worker(options);
  worker.AddRows(4);
  Moments before(1);
  for (double value : {10.0, 20.0, 60.0}) before.Add({0, {value}, {}, {}});
  Moments batch(1);
  for (RowNumber number = 0; number < 4; ++number) batch.Add(RowOf(number));
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
    const Row row = RowOf(number);
    const double scaled = scaler.Scale(0, row.numeric[0]);
    loss -= std::log(Probabilities(row, SomeWeights(0), scaled)[row.label]);
  }
  EXPECT_NEAR(messages[0].update().train_loss(), loss / 4, 1e-6);
}

TEST(WorkerTrainingTest, AWeightChangeIsWhatTheLocalSolverFinds) {
  for (const Training::Update::Solver solver :
       {Training::Update::LBFGS, Training::Update::LOCAL_SGD}) {
    WorkerOptions options = Worker::Options();
    Training::Update& update = *options.training.mutable_update();
    update.set_kind(Training::Update::WEIGHT_CHANGE);
    update.set_solver(solver);
    update.set_local_iterations(2);
    update.set_local_learning_rate(0.25);
    options.training.set_l2(0.01);
    Worker worker(options);
    worker.AddRows(4);
    const Gradient message = worker.UpdateOf(0);

    std::vector<Row> rows;
    for (RowNumber number = 0; number < 4; ++number) rows.push_back(RowOf(number));
    const std::vector<const Row*> view = {&rows[0], &rows[1], &rows[2], &rows[3]};
    LocalSolverOptions solver_options;
    solver_options.kind = solver == Training::Update::LBFGS ? LocalSolverOptions::Kind::kLbfgs
                                                            : LocalSolverOptions::Kind::kSgd;
    solver_options.iterations = 2;
    solver_options.learning_rate = 0.25;
    solver_options.l2 = 0.01;
    const LocalChange expected =
        SolveLocally(worker.model(), view, Scaler::Identity(1), SomeWeights(0), solver_options);
    EXPECT_EQ(Values(message.update().slice()), expected.change);
    EXPECT_NE(expected.change, std::vector<float>(kParameters));
    EXPECT_EQ(message.update().row_count(), 4u);
    EXPECT_EQ(message.update().weight_sum(), 4.0);
  }
}

TEST(WorkerTrainingTest, OneStepOfLocalSgdIsTheMeanGradientTimesTheRate) {
  WorkerOptions options = Worker::Options();
  Training::Update& update = *options.training.mutable_update();
  update.set_kind(Training::Update::WEIGHT_CHANGE);
  update.set_solver(Training::Update::LOCAL_SGD);
  update.set_local_iterations(1);
  update.set_local_learning_rate(0.5);
  Worker worker(options);
  worker.AddRows(4);
  const std::vector<float> change = Values(worker.UpdateOf(0).update().slice());
  const Reference reference = ReferenceOf({0, 1, 2, 3}, SomeWeights(0));
  for (size_t i = 0; i < kParameters; ++i) {
    EXPECT_NEAR(change[i], -0.5 * reference.gradient[i] / 4, 1e-5);
  }
}

TEST(WorkerTrainingTest, BatchesAreEvaluatedForTheLocalLogOnlyIfItIsAskedFor) {
  WorkerOptions options = Worker::Options();
  options.evaluate_batches = true;
  Worker worker(options);
  worker.AddRows(8);
  worker.UpdateOf(0);
  ASSERT_THAT(worker.output().evaluations, SizeIs(1));
  EXPECT_EQ(worker.output().evaluations[0].clock, 0u);
  EXPECT_EQ(worker.output().evaluations[0].figures.rows, 4u);
  EXPECT_EQ(worker.output().evaluations[0].rows_seen, 4u);
  worker.UpdateOf(1);
  EXPECT_EQ(worker.output().evaluations[0].rows_seen, 8u);
  Worker quiet(Worker::Options());
  quiet.AddRows(4);
  quiet.UpdateOf(0);
  EXPECT_THAT(quiet.output().evaluations, IsEmpty());
}

// ---- frozen rows and the tail ----

TEST(WorkerTrainingTest, RowsBehindTheFreezeAreTestedButNotLearntFrom) {
  WorkerOptions options = Worker::Options();
  options.training.set_scaling(Training::RUNNING);
  options.worker = 1;
  options.workers = 4;
  // This worker's rows are 1, 5, 9, 13, 17, ... of the stream.
  options.training.set_freeze_after_rows(9);
  Worker worker(options);
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
  WorkerOptions options = Worker::Options();
  options.training.set_freeze_after_rows(3);
  Worker worker(options);
  worker.AddRows(4);
  const std::vector<float> values = Values(worker.UpdateOf(0).update().slice());
  const Reference reference = ReferenceOf({0, 1, 2}, SomeWeights(0));
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, TheTailIsCountedOverAllPartitionsAndLearntFrom) {
  WorkerOptions options = Worker::Options();
  options.worker = 2;
  options.workers = 3;
  options.training.set_tail_after_rows(9);  // rows 2, 5, 8, 11: only the last
  Worker worker(options);
  worker.AddRows(4);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 4u);
  EXPECT_EQ(update.update().tail().rows(), 1u);
  EXPECT_EQ(update.update().progressive().rows(), 4u);
}

TEST(WorkerTrainingTest, TheTailMayBeginElsewhereThanTheFreeze) {
  WorkerOptions options = Worker::Options();
  options.training.set_freeze_after_rows(3);
  options.training.set_tail_after_rows(1);
  Worker worker(options);
  worker.AddRows(4);
  const Gradient update = worker.UpdateOf(0);
  EXPECT_EQ(update.update().row_count(), 3u);
  EXPECT_EQ(update.update().tail().rows(), 3u);
}

// ---- the buffer schedule ----

TEST(WorkerTrainingTest, NewRowsThatAMiniBatchLeavesOutAreTestedButDoNotCountAsTrainedOn) {
  TrainingBuffer buffer({.min_rows = 8, .max_rows = 8}, "b");
  SlidingBufferBatches source({.max_rows = 8, .minibatch_rows = 2}, kShape, buffer);
  InputDataProcessor input(0, kShape, source, 0);
  const SoftmaxRegression model(4, 2);
  WorkerTrainingProcessor training(Worker::Options(), model, source);
  for (RowNumber number = 0; number < 5; ++number) {
    ASSERT_TRUE(input.Process({0, 0, EncodeBigEndian64(number), EncodeRow(RowOf(number))}).ok());
  }
  const Worker answers(Worker::Options());
  ASSERT_TRUE(training.ProcessWeights(answers.Answer(0).SerializeAsString()).ok());
  WorkerOutput output;
  ASSERT_TRUE(training.TryTrain(output).ok());
  ASSERT_THAT(output.messages, SizeIs(1));
  Gradient update;
  ASSERT_TRUE(update.ParseFromString(*output.messages[0].body));
  EXPECT_EQ(update.update().progressive().rows(), 5u);
  EXPECT_EQ(update.update().row_count(), 2u);
  EXPECT_EQ(update.update().new_rows(), 2u);
  EXPECT_EQ(update.update().rows_end(), 5u);
  EXPECT_EQ(update.update().buffer_rows(), 5u);
  const Reference reference = ReferenceOf({3, 4}, SomeWeights(0));
  const std::vector<float> values = Values(update.update().slice());
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

// ---- dead letters ----

TEST(WorkerTrainingTest, DeadLettersTravelWithTheUpdateThatCountsTheirRowsAndOnce) {
  Worker worker(Worker::Options());
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
  Worker worker(Worker::Options());
  worker.AddDamagedRow();
  worker.AddRows(3);
  worker.UpdateOf(0);
  EXPECT_EQ(worker.source().dead_letters().First(), 0u);
  EXPECT_EQ(worker.Repeat()[0].update().dead_letters_size(), 1);
  worker.ReceiveAndTrain(worker.Answer(1));
  EXPECT_EQ(worker.source().dead_letters().First(), std::nullopt);
}

TEST(WorkerTrainingTest, WhatCameBehindTheLastUpdateTravelsWithTheLeave) {
  Worker worker(Worker::Options());
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

// ---- the end ----

TEST(WorkerTrainingTest, AfterItsLastRowsItLeavesAndRepeatsThatUntilItIsKnown) {
  Worker worker(Worker::Options());
  worker.AddRows(6);
  worker.UpdateOf(0);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1)), IsEmpty());
  worker.End();
  const std::vector<Gradient> last = worker.Train();
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].kind_case(), Gradient::kUpdate);
  EXPECT_EQ(last[0].update().row_count(), 2u) << "a short batch is an ordinary one";
  const std::vector<Gradient> leave = worker.ReceiveAndTrain(worker.Answer(2));
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_EQ(leave[0].kind_case(), Gradient::kLeave);
  EXPECT_EQ(leave[0].clock(), 2u);
  EXPECT_FALSE(worker.training().left());
  EXPECT_EQ(worker.Repeat()[0].SerializeAsString(), leave[0].SerializeAsString());
  EXPECT_THAT(worker.ReceiveAndTrain(Worker::Left(worker.Answer(2))), IsEmpty());
  EXPECT_TRUE(worker.training().left());
  EXPECT_THAT(worker.Repeat(), IsEmpty());
}

TEST(WorkerTrainingTest, ATaskThatStartsAfterTheLeaveIsToldSoAndIsSilent) {
  Worker worker(Worker::Options());
  worker.Start();
  EXPECT_THAT(worker.ReceiveAndTrain(Worker::Left(worker.Answer(9))), IsEmpty());
  EXPECT_TRUE(worker.training().left());
  worker.AddRows(8);
  worker.End();
  EXPECT_THAT(worker.Train(), IsEmpty());
  EXPECT_THAT(worker.Repeat(), IsEmpty());
}

TEST(WorkerTrainingTest, IfOneShardSaysLeftItLeavesAll) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.AddRows(8);
  worker.Start();
  ASSERT_TRUE(worker.Receive(Worker::Left(worker.Answer(2, 1))).ok());
  const std::vector<Gradient> leave = worker.ReceiveAndTrain(worker.Answer(2, 0));
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0}));
  EXPECT_EQ(leave[0].kind_case(), Gradient::kLeave);
  EXPECT_THAT(worker.Train(), IsEmpty()) << "once, and then by Repeat";
  EXPECT_EQ(worker.Repeat()[0].kind_case(), Gradient::kLeave);
  worker.ReceiveAndTrain(Worker::Left(worker.Answer(2, 0)));
  EXPECT_TRUE(worker.training().left());
}

TEST(WorkerTrainingTest, TheLeaveOfOtherShardsFollowsTheirClock) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.Start();
  ASSERT_TRUE(worker.Receive(Worker::Left(worker.Answer(2, 1))).ok());
  worker.ReceiveAndTrain(worker.Answer(2, 0));
  // An older self's update of clock 2 was held there for the round, which is complete now.
  worker.ReceiveAndTrain(worker.Answer(3, 0));
  const std::vector<Gradient> leave = worker.Repeat();
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_EQ(leave[0].clock(), 3u) << "a leave of clock 2 would be refused for ever";
}

// ---- several shards ----

TEST(WorkerTrainingTest, TrainsOnThePartsOfAllShardsPutTogether) {
  WorkerOptions options = Worker::Options();
  options.shards = 3;
  Worker worker(options);
  worker.AddRows(4);
  worker.Start();
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0, 2)), IsEmpty());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0, 0)), IsEmpty());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(0, 1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 1, 2}));
  std::vector<float> values;
  for (const Gradient& update : updates) {
    const std::vector<float> part = Values(update.update().slice());
    values.insert(values.end(), part.begin(), part.end());
    EXPECT_EQ(update.update().row_count(), 4u);
  }
  const Reference reference = ReferenceOf({0, 1, 2, 3}, SomeWeights(0));
  ASSERT_EQ(values.size(), kParameters);
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, WhatMustBeCountedOnceGoesToShardZero) {
  WorkerOptions options = Worker::Options();
  options.training.set_scaling(Training::RUNNING);
  options.training.set_tail_after_rows(1);
  options.shards = 2;
  Worker worker(options);
  worker.AddDamagedRow();
  worker.AddRows(3);
  ASSERT_TRUE(worker.Receive(worker.Answer(0, 0)).ok());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(0, 1));
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[0].update().progressive().rows(), 3u);
  EXPECT_EQ(updates[0].update().tail().rows(), 3u);
  EXPECT_EQ(updates[0].update().new_rows(), 3u);
  EXPECT_EQ(updates[0].update().moments().count_size(), 1);
  EXPECT_EQ(updates[0].update().dead_letters_size(), 1);
  EXPECT_FALSE(updates[1].update().has_progressive());
  EXPECT_FALSE(updates[1].update().has_tail());
  EXPECT_EQ(updates[1].update().new_rows(), 0u);
  EXPECT_FALSE(updates[1].update().has_moments());
  EXPECT_EQ(updates[1].update().dead_letters_size(), 0);
}

TEST(WorkerTrainingTest, ItsClockIsTheLeastOfItsShardsAndALaterPartServes) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  Worker worker(options);
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_THAT(updates, SizeIs(2)) << "to all; the one that has this clock drops it";
  for (const Gradient& update : updates) EXPECT_EQ(update.clock(), 1u);
  std::vector<float> weights = SomeWeights(2);
  const std::vector<float> older = SomeWeights(1);
  std::copy_n(older.begin(), 5, weights.begin());
  const Reference reference = ReferenceOf({4, 5, 6, 7}, weights);
  const std::vector<float> values = Values(updates[0].update().slice());
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, ALaterPartThatIsNotReleasedHoldsNoWeightsAndIsWaitedFor) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  Worker worker(options);
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(Worker::Held(worker.Answer(2, 1))).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), IsEmpty());
  EXPECT_THAT(worker.Repeat(), SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 1)), SizeIs(2));
}

TEST(WorkerTrainingTest, SaysItsLeaveAgainToAShardThatHasComeToALaterClockMeanwhile) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.AddRows(8);
  worker.End();
  ASSERT_TRUE(worker.Receive(Worker::Left(worker.Answer(2, 1))).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), SizeIs(1));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), IsEmpty()) << "it has been said";
  const std::vector<Gradient> again = worker.ReceiveAndTrain(worker.Answer(3, 0));
  ASSERT_THAT(again, SizeIs(1)) << "a zombie's update was taken before the leave";
  EXPECT_EQ(again[0].kind_case(), Gradient::kLeave);
  EXPECT_EQ(again[0].clock(), 3u);
}

// Two shards, the second a clock ahead, as after a crash in the middle of sending.
Worker TornWorker() {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(Training::Consistency::SEQUENTIAL);
  return Worker(options);
}

void ExpectGradientOf(const std::vector<Gradient>& updates, const std::vector<RowNumber>& rows,
                      const std::vector<float>& weights) {
  std::vector<float> values;
  for (const Gradient& update : updates) {
    const std::vector<float> part = Values(update.update().slice());
    values.insert(values.end(), part.begin(), part.end());
  }
  const Reference reference = ReferenceOf(rows, weights);
  ASSERT_EQ(values.size(), kParameters);
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, InSequentialModeAnUpdateIsRepeatedOnTheWeightsThatItWasComputedOn) {
  Worker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  const std::vector<Gradient> asks = worker.ReceiveAndTrain(worker.Answer(1, 0));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_TRUE(asks[0].has_clock());
  EXPECT_EQ(asks[0].clock(), 1u);
  EXPECT_THAT(worker.ReceiveAndTrain(Worker::Replaced(worker.Answer(0, 1))), IsEmpty())
      << "of another clock than what is needed";
  const std::vector<Gradient> updates =
      worker.ReceiveAndTrain(Worker::Replaced(worker.Answer(1, 1)));
  ExpectGradientOf(updates, {4, 5, 6, 7}, SomeWeights(1));
}

TEST(WorkerTrainingTest, AsksForWhatWasReplacedAgainWhenTheShardSaysAllAgain) {
  Worker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), SizeIs(1));
  EXPECT_THAT(worker.Train(), IsEmpty()) << "it has asked";
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 1)), SizeIs(1))
      << "a server that was restarted announces what it has, and has forgotten the question";
  EXPECT_THAT(worker.Repeat(), SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
}

TEST(WorkerTrainingTest, WhatWasReplacedIsOfNoUseWhenTheOtherShardsHaveComeAfter) {
  Worker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_TRUE(worker.Receive(Worker::Replaced(worker.Answer(1, 1))).ok());
  ExpectGradientOf(worker.ReceiveAndTrain(worker.Answer(2, 0)), {8, 9, 10, 11}, SomeWeights(2));
}

TEST(WorkerTrainingTest, WhatWasReplacedAtOneClockIsNotUsedAtTheNext) {
  Worker worker = TornWorker();
  worker.AddRows(16);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_THAT(worker.ReceiveAndTrain(Worker::Replaced(worker.Answer(1, 1))), SizeIs(2));
  // Another instance's update of clock 2 has come to shard 1 only.
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(3, 1)), IsEmpty());
  const std::vector<Gradient> asks = worker.ReceiveAndTrain(worker.Answer(2, 0));
  ASSERT_THAT(asks, SizeIs(1)) << "no update: shard 1's weights of clock 2 are not there";
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_EQ(asks[0].clock(), 2u);
  ExpectGradientOf(worker.ReceiveAndTrain(Worker::Replaced(worker.Answer(2, 1))), {8, 9, 10, 11},
                   SomeWeights(2));
}

TEST(WorkerTrainingTest, WaitsForNewsOfAShardWhoseAnswerIsOlderThanTheOthersAllow) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  Worker worker(options);
  worker.AddRows(16);
  ASSERT_TRUE(worker.Receive(worker.Answer(3, 1)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), IsEmpty())
      << "shard 1 took the update of clock 2, so shard 0 has that of clock 1";
  const std::vector<Gradient> said = worker.Repeat();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 0}));
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore) << "if shard 0 has lost its state";
  EXPECT_EQ(said[1].kind_case(), Gradient::kAsk);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), SizeIs(2));
}

TEST(WorkerTrainingTest, WhenShardZeroIsAheadItsRowsAreThoseOfTheClockBefore) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  Worker worker(options);
  worker.AddRows(12);
  Weights ahead = worker.Answer(2, 0);
  ahead.mutable_rows_before()->set_end(4);
  ahead.mutable_rows_before()->set_updates_without_rows(3);
  ASSERT_TRUE(worker.Receive(ahead).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 1));
  EXPECT_EQ(worker.training().progress().clock, 1u);
  EXPECT_EQ(worker.training().progress().rows_end, 4u);
  EXPECT_EQ(worker.training().progress().updates_without_rows, 3u);
}

// ---- weights that cannot be used ----

TEST(WorkerTrainingTest, RefusesWeightsOfAnotherJobEpochShardOrShapeAndChangesNothing) {
  Worker worker(Worker::Options());
  worker.AddRows(8);
  worker.UpdateOf(0);
  const Weights good = worker.Answer(1);
  std::vector<Weights> bad(9, good);
  bad[0].set_epoch(2);
  bad[1].set_shard(1);
  bad[2].mutable_slice()->set_end(9);
  bad[3].mutable_slice()->mutable_dense()->RemoveLast();
  bad[4].mutable_slice()->clear_dense();
  bad[5].clear_slice();
  bad[6].clear_moments();
  bad[7].mutable_moments()->add_count(1);
  bad[8].set_job(7);
  for (const Weights& message : bad) {
    const Status status = worker.Receive(message);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message.ShortDebugString();
    EXPECT_THAT(worker.Train(), IsEmpty());
  }
  EXPECT_FALSE(worker.training().ProcessWeights("\xff damaged").ok());
  EXPECT_EQ(worker.training().progress().clock, 0u);
  EXPECT_THAT(worker.ReceiveAndTrain(good), SizeIs(1));
}

TEST(WorkerTrainingTest, NoDamageToAnAnswerCrashesIt) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    WorkerOptions options = Worker::Options();
    options.training.set_scaling(random() % 2 == 0 ? Training::NONE : Training::RUNNING);
    Worker worker(options);
    worker.AddRows(12);
    std::string bytes = worker.Answer(0).SerializeAsString();
    for (uint64_t change = 1 + random() % 3; change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!worker.training().ProcessWeights(bytes).ok()) continue;
    WorkerOutput output;
    (void)worker.training().TryTrain(output);
    worker.training().Repeat(output);
  }
}

TEST(WorkerTrainingProcessor, TellsAShardThatHasLostItsStateWhatItHasOfIt) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.AddRows(12);
  Weights lost;
  lost.set_epoch(options.epoch);
  lost.set_shard(1);
  lost.set_lost(true);
  // An instance that has just started knows nothing, and says so.
  std::vector<Gradient> said = worker.ReceiveAndTrain(lost);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore);
  EXPECT_FALSE(said[0].has_clock());
  EXPECT_FALSE(said[0].restore().has_slice());
  EXPECT_THAT(worker.Train(), IsEmpty()) << "once for each time that it is asked";

  worker.ReceiveAndTrain(worker.Answer(2, 0));
  ASSERT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 1)), SizeIs(2)) << "the update";
  said = worker.ReceiveAndTrain(lost);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_TRUE(said[0].has_clock());
  EXPECT_EQ(said[0].clock(), 2u);
  EXPECT_EQ(said[0].restore().slice().SerializeAsString(),
            worker.Answer(2, 1).slice().SerializeAsString());
  EXPECT_EQ(said[0].restore().rows().end(), worker.Answer(2, 1).rows().end());
  EXPECT_FALSE(said[0].restore().has_moments()) << "they come from shard 0";

  lost.set_shard(0);
  said = worker.ReceiveAndTrain(lost);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_TRUE(said[0].restore().has_moments());
  // What it was told before still counts: the update is said again, and nothing else is asked.
  EXPECT_THAT(worker.Repeat(), SizeIs(2));
}

// It was restored from what an older instance of this worker knew.
TEST(WorkerTrainingProcessor, TellsAShardThatSaysAnOlderClockWhatItKnows) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.AddRows(12);
  worker.ReceiveAndTrain(worker.Answer(2, 0));
  worker.ReceiveAndTrain(worker.Answer(2, 1));
  worker.ReceiveAndTrain(worker.Answer(1, 1));
  std::vector<Gradient> said = worker.Repeat();
  ASSERT_THAT(said, SizeIs(3));
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore);
  EXPECT_EQ(said[0].clock(), 2u);
  EXPECT_FALSE(said[0].restore().has_slice());
  EXPECT_EQ(worker.receivers()[0], 1u);
  worker.ReceiveAndTrain(worker.Answer(2, 1));
  EXPECT_THAT(worker.Repeat(), SizeIs(2)) << "it is told once for each time";
}

TEST(WorkerTrainingProcessor, TellsAShardThatIsTwoClocksBehindTheOthers) {
  WorkerOptions options = Worker::Options();
  options.shards = 2;
  Worker worker(options);
  worker.AddRows(20);
  worker.ReceiveAndTrain(worker.Answer(4, 0));
  worker.ReceiveAndTrain(worker.Answer(2, 1));
  const std::vector<Gradient> said = worker.Repeat();
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore);
  EXPECT_EQ(said[0].clock(), 3u);
  EXPECT_EQ(worker.receivers()[0], 1u);
}

}  // namespace
}  // namespace millrace
