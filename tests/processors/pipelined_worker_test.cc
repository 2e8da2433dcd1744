// A worker of several updates in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/worker_training_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;

WorkerOptions Pipelined(size_t pipeline, Training::Consistency::Model model, uint32_t delay = 0) {
  WorkerOptions options = TrainingWorker::Options();
  options.pipeline = pipeline;
  options.training.mutable_consistency()->set_model(model);
  if (delay > 0) options.training.mutable_consistency()->set_max_delay(delay);
  return options;
}

TEST(PipelinedWorker, ComputesTheNextUpdateWhileTheAnswerToTheLastIsUnderWay) {
  TrainingWorker worker(Pipelined(2, Training::Consistency::EVENTUAL));
  worker.AddRows(20);
  const std::vector<Gradient> first = worker.ReceiveAndTrain(worker.Answer(0));
  ASSERT_THAT(first, SizeIs(2));
  for (uint64_t clock = 0; clock < 2; ++clock) {
    const Gradient::Update& update = first[clock].update();
    EXPECT_EQ(first[clock].clock(), clock);
    EXPECT_EQ(update.rows_begin(), 4 * clock);
    EXPECT_EQ(update.rows_end(), 4 * clock + 4);
    const Reference right = ReferenceOf({RowNumber(4 * clock), RowNumber(4 * clock + 1),
                                         RowNumber(4 * clock + 2), RowNumber(4 * clock + 3)},
                                        SomeWeights(0));
    for (size_t i = 0; i < kParameters; ++i) {
      EXPECT_NEAR(DenseValues(update.slice())[i], right.gradient[i], 1e-4);
    }
  }
  EXPECT_THAT(worker.Train(), IsEmpty()) << "no more may be in flight";
  const std::vector<Gradient> third = worker.ReceiveAndTrain(worker.Answer(1));
  ASSERT_THAT(third, SizeIs(1));
  EXPECT_EQ(third[0].clock(), 2u);
  EXPECT_EQ(third[0].update().rows_begin(), 8u);
  // An answer to two updates at once makes room for two.
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(3)),
              ElementsAre(Property(&Gradient::clock, 3), Property(&Gradient::clock, 4)));
}

TEST(PipelinedWorker, RepeatsWhatIsInFlightInOrder) {
  TrainingWorker worker(Pipelined(3, Training::Consistency::EVENTUAL));
  worker.AddRows(20);
  const std::vector<Gradient> sent = worker.ReceiveAndTrain(worker.Answer(0));
  ASSERT_THAT(sent, SizeIs(3));
  worker.ReceiveAndTrain(worker.Answer(1));
  const std::vector<Gradient> again = worker.Repeat();
  ASSERT_THAT(again, SizeIs(3));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again[i].SerializeAsString(), sent[i + 1].SerializeAsString());
  }
  EXPECT_EQ(again[2].clock(), 3u);
}

TEST(PipelinedWorker, LeavesWhenAllThatIsInFlightHasBeenTaken) {
  TrainingWorker worker(Pipelined(3, Training::Consistency::EVENTUAL));
  worker.AddRows(6);
  worker.End();
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), SizeIs(2));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1)), IsEmpty());
  const std::vector<Gradient> leave = worker.ReceiveAndTrain(worker.Counting(6, worker.Answer(2)));
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_TRUE(leave[0].has_leave());
  EXPECT_EQ(leave[0].clock(), 2u);
}

TEST(PipelinedWorker, BeginsNoClockThatIsFurtherThanTheBoundFromTheSlowest) {
  TrainingWorker worker(Pipelined(3, Training::Consistency::BOUNDED, 2));
  worker.AddRows(40);
  const auto answer = [&](uint64_t clock, uint64_t min_clock) {
    Weights message = worker.Answer(Clock(clock));
    message.set_min_clock(min_clock);
    return message;
  };
  EXPECT_THAT(worker.ReceiveAndTrain(answer(0, 0)), SizeIs(3)) << "clocks 0, 1 and 2";
  EXPECT_THAT(worker.ReceiveAndTrain(answer(1, 0)), IsEmpty()) << "clock 3 would be 3 ahead";
  EXPECT_THAT(worker.ReceiveAndTrain(answer(2, 1)), ElementsAre(Property(&Gradient::clock, 3)));
}

// Two shards have different numbers of its updates; shard 0 says where each of them begins.
TEST(PipelinedWorker, ANewInstanceBeginsWhereTheShardThatIsFurthestBehindStands) {
  WorkerOptions options = Pipelined(2, Training::Consistency::EVENTUAL);
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(20);
  Weights ahead = worker.Counting(12, worker.Answer(3, 0));
  for (const uint64_t end : {8, 4}) ahead.add_rows_before()->set_end(end);
  EXPECT_THAT(worker.ReceiveAndTrain(ahead), IsEmpty());
  const std::vector<Gradient> updates = worker.ReceiveAndTrain(worker.Answer(1, 1));
  ASSERT_THAT(updates, SizeIs(4)) << "two updates to two shards";
  EXPECT_EQ(updates[0].clock(), 1u);
  EXPECT_EQ(updates[0].update().rows_begin(), 4u);
  EXPECT_EQ(updates[2].clock(), 2u);
  EXPECT_EQ(updates[2].update().rows_begin(), 8u);
}

// Another instance's update was taken in the place of this one's.
TEST(PipelinedWorker, WhatFollowedOnAnUpdateOfOtherRowsIsComputedAnew) {
  TrainingWorker worker(Pipelined(2, Training::Consistency::EVENTUAL));
  worker.AddRows(20);
  worker.ReceiveAndTrain(worker.Answer(0));
  const std::vector<Gradient> anew = worker.ReceiveAndTrain(worker.Counting(2, worker.Answer(1)));
  ASSERT_THAT(anew, SizeIs(2));
  EXPECT_EQ(anew[0].clock(), 1u);
  EXPECT_EQ(anew[0].update().rows_begin(), 2u);
  EXPECT_EQ(anew[1].clock(), 2u);
}

TEST(PipelinedWorker, ReportsTheRowsThatAreInFlightToALostShard) {
  TrainingWorker worker(Pipelined(2, Training::Consistency::EVENTUAL));
  worker.AddRows(20);
  worker.ReceiveAndTrain(worker.Answer(1));
  Weights lost;
  lost.set_epoch(1);
  lost.set_lost(true);
  const std::vector<Gradient> report = worker.ReceiveAndTrain(lost);
  ASSERT_THAT(report, SizeIs(1));
  EXPECT_EQ(report[0].clock(), 1u);
  EXPECT_THAT(report[0].restore().sent_rows(), ElementsAre(8, 12));
}

}  // namespace
}  // namespace millrace
