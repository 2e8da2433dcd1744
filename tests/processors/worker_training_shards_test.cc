// A worker of several shards, which may stand at different clocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/processors/worker_training_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TrainingWorker WorkerOfTwoShards(Training::Consistency::Model consistency) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  options.training.mutable_consistency()->set_model(consistency);
  return TrainingWorker(options);
}

// ---- several shards ----

TEST(WorkerTrainingTest, TrainsOnThePartsOfAllShardsPutTogether) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 3;
  TrainingWorker worker(options);
  worker.AddRows(4);
  worker.Start();
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0, 2)), IsEmpty());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0, 0)), IsEmpty());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(0, 1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 1, 2}));
  std::vector<float> values;
  for (const Gradient& update : updates) {
    const std::vector<float> part = DenseValues(update.update().slice());
    values.insert(values.end(), part.begin(), part.end());
    EXPECT_EQ(update.update().row_count(), 4u);
  }
  const Reference reference = ReferenceOf({0, 1, 2, 3}, SomeWeights(0));
  ASSERT_EQ(values.size(), kParameters);
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, WhatMustBeCountedOnceGoesToShardZero) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_scaling(Training::RUNNING);
  options.training.set_tail_after_rows(1);
  options.shards = 2;
  TrainingWorker worker(options);
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
  TrainingWorker worker = WorkerOfTwoShards(Training::Consistency::EVENTUAL);
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_THAT(updates, SizeIs(2)) << "to all; the one that has this clock drops it";
  for (const Gradient& update : updates) EXPECT_EQ(update.clock(), 1u);
  std::vector<float> weights = SomeWeights(2);
  const std::vector<float> older = SomeWeights(1);
  std::copy_n(older.begin(), 5, weights.begin());
  const Reference reference = ReferenceOf({4, 5, 6, 7}, weights);
  const std::vector<float> values = DenseValues(updates[0].update().slice());
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, ALaterPartThatIsNotReleasedHoldsNoWeightsAndIsWaitedFor) {
  TrainingWorker worker = WorkerOfTwoShards(Training::Consistency::EVENTUAL);
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(TrainingWorker::Held(worker.Answer(2, 1))).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), IsEmpty());
  EXPECT_THAT(worker.Repeat(), SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 1)), SizeIs(2));
}

TEST(WorkerTrainingTest, SaysItsLeaveAgainToAShardThatHasComeToALaterClockMeanwhile) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(8);
  worker.End();
  const Weights left = TrainingWorker::Left(worker.Answer(2, 1));
  ASSERT_TRUE(worker.Receive(worker.To(worker.Start()[1], left)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), SizeIs(1));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), IsEmpty()) << "it has been said";
  const std::vector<Gradient> again = worker.ReceiveAndTrain(worker.Answer(3, 0));
  ASSERT_THAT(again, SizeIs(1)) << "a zombie's update was taken before the leave";
  EXPECT_EQ(again[0].kind_case(), Gradient::kLeave);
  EXPECT_EQ(again[0].clock(), 3u);
}

// Two shards, the second a clock ahead, as after a crash in the middle of sending.
TrainingWorker TornWorker() { return WorkerOfTwoShards(Training::Consistency::SEQUENTIAL); }

void ExpectGradientOf(const std::vector<Gradient>& updates, const std::vector<RowNumber>& rows,
                      const std::vector<float>& weights) {
  std::vector<float> values;
  for (const Gradient& update : updates) {
    const std::vector<float> part = DenseValues(update.update().slice());
    values.insert(values.end(), part.begin(), part.end());
  }
  const Reference reference = ReferenceOf(rows, weights);
  ASSERT_EQ(values.size(), kParameters);
  for (size_t i = 0; i < kParameters; ++i) EXPECT_NEAR(values[i], reference.gradient[i], 1e-5);
}

TEST(WorkerTrainingTest, InSequentialModeAnUpdateIsRepeatedOnTheWeightsThatItWasComputedOn) {
  TrainingWorker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  const std::vector<Gradient> asks = worker.ReceiveAndTrain(worker.Answer(1, 0));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_TRUE(asks[0].has_clock());
  EXPECT_EQ(asks[0].clock(), 1u);
  EXPECT_THAT(worker.ReceiveAndTrain(TrainingWorker::PreviousReceiver(worker.Answer(0, 1))),
              IsEmpty())
      << "of another clock than what is needed";
  const std::vector<Gradient> updates =
      worker.ReceiveAndTrain(TrainingWorker::PreviousReceiver(worker.Answer(1, 1)));
  ExpectGradientOf(updates, {4, 5, 6, 7}, SomeWeights(1));
}

TEST(WorkerTrainingTest, AsksForThePreviousRoundAgainWhenTheShardSaysAllAgain) {
  TrainingWorker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), SizeIs(1));
  EXPECT_THAT(worker.Train(), IsEmpty()) << "it has asked";
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 1)), SizeIs(1))
      << "a server that was restarted announces what it has, and has forgotten the question";
  EXPECT_THAT(worker.Repeat(), SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
}

TEST(WorkerTrainingTest, ThePreviousRoundIsOfNoUseWhenTheOtherShardsHaveComeAfter) {
  TrainingWorker worker = TornWorker();
  worker.AddRows(12);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_TRUE(worker.Receive(TrainingWorker::PreviousReceiver(worker.Answer(1, 1))).ok());
  ExpectGradientOf(worker.ReceiveAndTrain(worker.Answer(2, 0)), {8, 9, 10, 11}, SomeWeights(2));
}

TEST(WorkerTrainingTest, ThePreviousRoundOfOneClockIsNotUsedAtTheNext) {
  TrainingWorker worker = TornWorker();
  worker.AddRows(16);
  ASSERT_TRUE(worker.Receive(worker.Answer(2, 1)).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 0));
  ASSERT_THAT(worker.ReceiveAndTrain(TrainingWorker::PreviousReceiver(worker.Answer(1, 1))),
              SizeIs(2));
  // Another instance's update of clock 2 has come to shard 1 only.
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(3, 1)), IsEmpty());
  const std::vector<Gradient> asks = worker.ReceiveAndTrain(worker.Answer(2, 0));
  ASSERT_THAT(asks, SizeIs(1)) << "no update: shard 1's weights of clock 2 are not there";
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_EQ(asks[0].clock(), 2u);
  ExpectGradientOf(worker.ReceiveAndTrain(TrainingWorker::PreviousReceiver(worker.Answer(2, 1))),
                   {8, 9, 10, 11}, SomeWeights(2));
}

TEST(WorkerTrainingTest, WaitsForNewsOfAShardWhoseAnswerIsOlderThanTheOthersAllow) {
  TrainingWorker worker = WorkerOfTwoShards(Training::Consistency::EVENTUAL);
  worker.AddRows(16);
  ASSERT_TRUE(worker.Receive(worker.Answer(3, 1)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1, 0)), IsEmpty())
      << "shard 1 took the update of clock 2, so shard 0 has that of clock 1";
  const std::vector<Gradient> said = worker.Repeat();
  ASSERT_THAT(said, SizeIs(3));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 0, 1}));
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore) << "if shard 0 has lost its state";
  EXPECT_EQ(said[1].kind_case(), Gradient::kAsk);
  EXPECT_EQ(said[2].kind_case(), Gradient::kAsk) << "if somebody has made clock 3 up";
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), SizeIs(2));
}

TEST(WorkerTrainingTest, WhenShardZeroIsAheadItsRowsAreThoseOfTheClockBefore) {
  TrainingWorker worker = WorkerOfTwoShards(Training::Consistency::EVENTUAL);
  worker.AddRows(12);
  Weights ahead = worker.Answer(2, 0);
  RowProgress& before = *ahead.add_rows_before();
  before.set_end(4);
  before.set_updates_without_rows(3);
  ASSERT_TRUE(worker.Receive(ahead).ok());
  worker.ReceiveAndTrain(worker.Answer(1, 1));
  EXPECT_EQ(worker.training().progress().clock, 1u);
  EXPECT_EQ(worker.training().progress().rows_end, 4u);
  EXPECT_EQ(worker.training().progress().updates_without_rows, 3u);
}

// A worker that has left says nothing else that could bring the shard to ask again.
TEST(WorkerTrainingProcessor, RepeatsWhatItToldALostShardAlsoWhenItHasLeft) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  worker.End();
  const Gradient question = worker.Start()[0];
  worker.ReceiveAndTrain(worker.To(question, TrainingWorker::Left(worker.Answer(1))));
  EXPECT_THAT(worker.Repeat(), IsEmpty());
  Weights lost;
  lost.set_epoch(worker.Answer(1).epoch());
  lost.set_lost(true);
  ASSERT_THAT(worker.ReceiveAndTrain(lost), SizeIs(1));
  const std::vector<Gradient> again = worker.Repeat();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[0].kind_case(), Gradient::kAsk);
  EXPECT_TRUE(again[1].restore().left());
  // A server that was replaced before the state was lost may have said this.
  worker.ReceiveAndTrain(worker.To(question, TrainingWorker::Left(worker.Answer(1))));
  const std::vector<Gradient> ask = worker.Repeat();
  ASSERT_THAT(ask, SizeIs(1));
  EXPECT_EQ(ask[0].kind_case(), Gradient::kAsk);
  worker.ReceiveAndTrain(worker.Answer(1));
  EXPECT_TRUE(worker.Repeat()[0].restore().left()) << "the shard does not know it";
}

TEST(WorkerTrainingProcessor, TellsAShardThatHasLostItsStateWhatItHasOfIt) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
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
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
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
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
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
