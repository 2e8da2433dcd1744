#include "processors/worker_training_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/processors/worker_training_fixture.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;

// ---- the joints ----

TEST(WorkerTrainingTest, AtStartItAsksEveryShardWhereItStands) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 3;
  options.worker = 5;
  options.workers = 6;
  options.epoch = 8;
  options.job = 77;
  TrainingWorker worker(options);
  const std::vector<Gradient> asks = worker.Start();
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0, 1, 2}));
  for (const Gradient& ask : asks) {
    EXPECT_EQ(ask.kind_case(), Gradient::kAsk);
    EXPECT_EQ(ask.worker(), 5u);
    EXPECT_EQ(ask.epoch(), 8u);
    EXPECT_EQ(ask.job(), 77u);
    EXPECT_FALSE(ask.has_clock());
  }
  EXPECT_FALSE(worker.training().answered());
}

TEST(WorkerTrainingTest, AClockWithoutRowsIsOwedUntilTheCompletingRowComes) {
  TrainingWorker worker(TrainingWorker::Options());
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
  TrainingWorker worker(TrainingWorker::Options());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Counting(16, worker.Answer(4))), IsEmpty());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Counting(8, worker.Answer(2))), IsEmpty());
  worker.Repeat();
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Counting(8, worker.Answer(2))), IsEmpty());
  worker.AddRows(20);
  const std::vector<Gradient> updates = worker.Train();
  ASSERT_THAT(updates, SizeIs(1));
  EXPECT_EQ(updates[0].clock(), 4u);
}

// Nobody may be silent, and nobody leave, because of a clock that somebody made up.
TEST(WorkerTrainingTest, AForgedClockThatIsCorrectedDoesNotSilenceTheWorker) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  worker.UpdateOf(0);  // and it is lost
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Counting(400, worker.Answer(100))), IsEmpty());
  const std::vector<Gradient> first = worker.Repeat();
  ASSERT_THAT(first, SizeIs(1));
  // For clock 100 it has let go of the rows of clock 0.
  EXPECT_THAT(worker.ReceiveAndTrain(worker.To(first[0], worker.Answer(0))), IsEmpty());
  const std::vector<Gradient> asks = worker.Repeat();
  ASSERT_THAT(asks, SizeIs(2));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kRestore);
  EXPECT_FALSE(asks[0].has_clock()) << "it does not believe in clock 100";
  EXPECT_EQ(asks[1].kind_case(), Gradient::kAsk);
}

TEST(WorkerTrainingTest, ALeaveForAForgedClockIsTakenBackWhenItIsCorrected) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(8);
  worker.End();
  worker.UpdateOf(0);
  worker.ReceiveAndTrain(worker.Counting(400, worker.Answer(100)));
  const std::vector<Gradient> leaves = worker.Repeat();
  ASSERT_FALSE(leaves.empty());
  for (const Gradient& leave : leaves) {
    EXPECT_TRUE(leave.has_leave());
    EXPECT_EQ(leave.clock(), 100u) << "no server takes it";
  }
  const std::vector<Gradient> again =
      worker.ReceiveAndTrain(worker.To(leaves.back(), worker.Answer(0)));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_TRUE(again[0].has_update());
  EXPECT_EQ(again[0].clock(), 0u);
  EXPECT_EQ(worker.UpdateOf(1).clock(), 1u);
}

// The rows bear it out, so the worker computes an update, which no server takes.
TEST(WorkerTrainingTest, AForgedClockWhoseRowsHaveComeIsCorrectedByTheReplyToARepeatedUpdate) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  const std::vector<Gradient> forged = worker.ReceiveAndTrain(worker.Counting(4, worker.Answer(5)));
  ASSERT_THAT(forged, SizeIs(1));
  EXPECT_EQ(forged[0].clock(), 5u);
  const Weights truth = worker.To(forged[0], worker.Answer(1));
  EXPECT_THAT(worker.ReceiveAndTrain(truth), IsEmpty())
      << "it may be a zombie's server that says so";
  ASSERT_THAT(worker.Repeat(), Contains(Property(&Gradient::number, forged[0].number())));
  const std::vector<Gradient> right = worker.ReceiveAndTrain(truth);
  ASSERT_THAT(right, SizeIs(1));
  EXPECT_EQ(right[0].clock(), 1u);
  EXPECT_EQ(right[0].update().rows_end(), 8u);
}

// It would be computed again, which a worker that keeps values back (--top-k) must not do.
TEST(WorkerTrainingTest, ALateReplyToAMessageThatHasBeenAnsweredSinceSetsNobodyBack) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  const Gradient sent = worker.UpdateOf(0);
  worker.Repeat();
  worker.UpdateOf(1);
  worker.UpdateOf(2);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.To(sent, worker.Answer(1))), IsEmpty());
  EXPECT_EQ(worker.training().progress().clock, 2u);
}

TEST(WorkerTrainingTest, RowsWithoutWeightsWaitForThem) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  EXPECT_THAT(worker.Train(), IsEmpty());
  EXPECT_FALSE(worker.training().owes_update());
  EXPECT_EQ(worker.UpdateOf(0).update().row_count(), 4u);
  EXPECT_THAT(worker.Train(), IsEmpty()) << "one update for a clock, however many rows wait";
  EXPECT_EQ(worker.UpdateOf(1).update().rows_end(), 8u);
}

TEST(WorkerTrainingTest, AnAnswerThatIsRepeatedLeadsToNoSecondUpdate) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty());
  worker.UpdateOf(1);
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), IsEmpty()) << "a zombie's late answer";
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(1)), IsEmpty());
  EXPECT_EQ(worker.training().progress().clock, 1u);
}

TEST(WorkerTrainingTest, RepeatsTheSameBytesUntilTheUpdateIsAnswered) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  const std::string sent = worker.output().messages[0].body->Joined();
  for (int i = 0; i < 3; ++i) {
    worker.Repeat();
    ASSERT_THAT(worker.output().messages, SizeIs(1));
    EXPECT_EQ(worker.output().messages[0].body->Joined(), sent);
  }
  worker.UpdateOf(1);
  worker.Repeat();
  ASSERT_THAT(worker.output().messages, SizeIs(1));
  EXPECT_NE(worker.output().messages[0].body->Joined(), sent);
}

TEST(WorkerTrainingTest, WithNothingUnansweredRepeatIsSilent) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  worker.UpdateOf(0);
  worker.ReceiveAndTrain(worker.Answer(1));
  EXPECT_THAT(worker.Repeat(), IsEmpty()) << "clock 1 is owed, for want of rows";
}

TEST(WorkerTrainingTest, RepeatAsksAgainWhoHasNotAnswered) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.Start();
  EXPECT_THAT(worker.training().SilentShards(), ElementsAreArray<ShardId>({0, 1}));
  ASSERT_TRUE(worker.Receive(worker.Answer(0, 1)).ok());
  EXPECT_THAT(worker.training().SilentShards(), ElementsAreArray<ShardId>({0}));
  const std::vector<Gradient> asks = worker.Repeat();
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0}));
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
}

TEST(WorkerTrainingTest, ATaskThatStartsAnewSendsTheSameUpdateOfTheSameClock) {
  WorkerOptions options = TrainingWorker::Options();
  options.training.set_scaling(Training::RUNNING);
  TrainingWorker first(options);
  first.AddRows(20);
  for (Clock clock = 0; clock < 3; ++clock) first.UpdateOf(clock);
  Gradient sent = first.UpdateOf(3);
  TrainingWorker second(options, 4, 12);
  second.AddRows(8);
  Gradient again = second.UpdateOf(3);
  sent.mutable_update()->clear_attempt();
  again.mutable_update()->clear_attempt();
  again.set_number(sent.number());
  EXPECT_EQ(again.SerializeAsString(), sent.SerializeAsString());
}

TEST(WorkerTrainingTest, AnAnswerThatIsNotReleasedHoldsTheWorkerBack) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  EXPECT_THAT(worker.ReceiveAndTrain(TrainingWorker::Held(worker.Answer(1))), IsEmpty());
  EXPECT_FALSE(worker.training().owes_update());
  const std::vector<Gradient> asks = worker.Repeat();
  ASSERT_THAT(asks, SizeIs(1)) << "the release may have gone by unread";
  EXPECT_EQ(asks[0].kind_case(), Gradient::kAsk);
  EXPECT_FALSE(asks[0].has_clock()) << "it asks for what is new";
  EXPECT_EQ(worker.UpdateOf(1).clock(), 1u);
  EXPECT_THAT(worker.ReceiveAndTrain(TrainingWorker::Held(worker.Answer(1))), IsEmpty());
}

// ---- the end ----

TEST(WorkerTrainingTest, AfterItsLastRowsItLeavesAndRepeatsThatUntilItIsKnown) {
  TrainingWorker worker(TrainingWorker::Options());
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
  Gradient again = worker.Repeat()[0];
  again.set_number(leave[0].number());
  EXPECT_EQ(again.SerializeAsString(), leave[0].SerializeAsString());
  EXPECT_THAT(worker.ReceiveAndTrain(TrainingWorker::Left(worker.Answer(2))), IsEmpty());
  EXPECT_TRUE(worker.training().left());
  EXPECT_THAT(worker.Repeat(), IsEmpty());
}

TEST(WorkerTrainingTest, ATaskThatStartsAfterTheLeaveIsToldSoAndIsSilent) {
  TrainingWorker worker(TrainingWorker::Options());
  const Gradient question = worker.Start()[0];
  const Weights left = worker.Counting(8, TrainingWorker::Left(worker.Answer(9)));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.To(question, left)), IsEmpty());
  EXPECT_TRUE(worker.training().left());
  worker.AddRows(8);
  worker.End();
  EXPECT_THAT(worker.Train(), IsEmpty());
  EXPECT_THAT(worker.Repeat(), IsEmpty());
}

TEST(WorkerTrainingTest, IfOneShardSaysLeftItLeavesAll) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(8);
  const std::vector<Gradient> questions = worker.Start();
  const Weights left = worker.To(questions[1], TrainingWorker::Left(worker.Answer(2, 1)));
  ASSERT_TRUE(worker.Receive(left).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(2, 0)), IsEmpty())
      << "shard 0 is told with the leave what is behind the last row";
  EXPECT_THAT(worker.Repeat(), IsEmpty());
  worker.AddStranger();
  worker.End();
  const std::vector<Gradient> leave = worker.Train();
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0}));
  EXPECT_EQ(leave[0].kind_case(), Gradient::kLeave);
  EXPECT_EQ(leave[0].leave().dead_letters_size(), 1);
  EXPECT_THAT(worker.Train(), IsEmpty()) << "once, and then by Repeat";
  EXPECT_EQ(worker.Repeat()[0].kind_case(), Gradient::kLeave);
  worker.ReceiveAndTrain(TrainingWorker::Left(worker.Answer(2, 0)));
  EXPECT_TRUE(worker.training().left());
}

// A sliding buffer reads no further while it doubts that; and the reply may be lost.
TEST(WorkerTrainingTest, WhereOneShardSaysLeftItAsksAgainWhatShardZeroHasCountedBeyondItsRows) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(4);
  const std::vector<Gradient> questions = worker.Start();
  const Weights left = worker.To(questions[1], TrainingWorker::Left(worker.Answer(2, 1)));
  ASSERT_TRUE(worker.Receive(left).ok());
  worker.ReceiveAndTrain(TrainingWorker::Counting(8, worker.Answer(2, 0)));
  for (int again = 0; again < 2; ++again) {
    const std::vector<Gradient> asked = worker.Repeat();
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({0}));
    EXPECT_EQ(asked[0].kind_case(), Gradient::kAsk);
  }
  worker.AddRows(4);
  EXPECT_THAT(worker.Repeat(), IsEmpty()) << "its rows have come";
}

TEST(WorkerTrainingTest, TheLeaveOfOtherShardsFollowsTheirClock) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(8);
  worker.End();
  const std::vector<Gradient> questions = worker.Start();
  const Weights left = worker.To(questions[1], TrainingWorker::Left(worker.Answer(2, 1)));
  ASSERT_TRUE(worker.Receive(left).ok());
  worker.ReceiveAndTrain(worker.Answer(2, 0));
  // An older self's update of clock 2 was held there for the round, which is complete now.
  worker.ReceiveAndTrain(worker.Answer(3, 0));
  const std::vector<Gradient> leave = worker.Repeat();
  ASSERT_THAT(leave, SizeIs(1));
  EXPECT_EQ(leave[0].clock(), 3u) << "a leave of clock 2 would be refused for ever";
}

TEST(WorkerTrainingTest, ThatItHasLeftItBelievesAShardOnlyInReply) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(12);
  worker.UpdateOf(0);
  for (const Clock forged : {Clock(0), Clock(2)}) {
    const Weights left = worker.Counting(0, TrainingWorker::Left(worker.Answer(forged)));
    const std::vector<Gradient> question = worker.ReceiveAndTrain(left);
    ASSERT_THAT(question, SizeIs(1)) << forged;
    EXPECT_EQ(question[0].kind_case(), Gradient::kAsk);
    EXPECT_THAT(worker.Train(), IsEmpty()) << "once, and then by Repeat";
    const std::vector<Gradient> again = worker.Repeat();
    ASSERT_THAT(again, SizeIs(1));
    EXPECT_EQ(again[0].kind_case(), Gradient::kAsk);
    const std::vector<Gradient> update =
        worker.ReceiveAndTrain(worker.To(again[0], worker.Answer(0)));
    ASSERT_THAT(update, SizeIs(1)) << "it is back";
    EXPECT_EQ(update[0].kind_case(), Gradient::kUpdate);
    EXPECT_EQ(update[0].clock(), 0u);
    EXPECT_FALSE(worker.training().left());
    EXPECT_EQ(worker.training().denied_leaves(), forged == 0 ? 1u : 2u);
  }
  EXPECT_EQ(worker.UpdateOf(1).clock(), 1u);
}

TEST(WorkerTrainingTest, OneForgedWordLeavesNoOtherShard) {
  WorkerOptions options = TrainingWorker::Options();
  options.shards = 2;
  TrainingWorker worker(options);
  worker.AddRows(12);
  worker.Start();
  ASSERT_TRUE(worker.Receive(worker.Answer(0, 0)).ok());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0, 1)), SizeIs(2));
  const auto questions = worker.ReceiveAndTrain(TrainingWorker::Left(worker.Answer(0, 1)));
  ASSERT_THAT(questions, SizeIs(1));
  EXPECT_THAT(worker.receivers(), ElementsAreArray<ShardId>({1}));
  EXPECT_EQ(questions[0].kind_case(), Gradient::kAsk);
  // The server has taken the update meanwhile.
  const auto updates = worker.ReceiveAndTrain(worker.To(questions[0], worker.Answer(1, 1)));
  for (const Gradient& message : updates) EXPECT_FALSE(message.has_leave());
  EXPECT_EQ(worker.training().denied_leaves(), 1u);
}

TEST(WorkerTrainingTest, ALeaveThatSomebodyElseSaidInItsNameIsAnErrorWhileItHasRows) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(8);
  const Gradient update = worker.UpdateOf(0);
  const Weights left = worker.Counting(4, TrainingWorker::Left(worker.Answer(1)));
  ASSERT_TRUE(worker.Receive(worker.To(update, left)).ok());
  WorkerOutput output;
  const Status status = worker.training().TryTrain(output);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("gradients, partition 0: worker 0 has left at clock 1, says the shard, but "
                        "the worker has not said "
                        "so, and has rows from 4 on that no update has counted"));
}

TEST(WorkerTrainingTest, ALeaveInItsNameIsAnErrorAlsoWhenItsNextRowsComeLater) {
  TrainingWorker worker(TrainingWorker::Options());
  worker.AddRows(4);
  const Gradient update = worker.UpdateOf(0);
  const Weights left = worker.Counting(4, TrainingWorker::Left(worker.Answer(1)));
  EXPECT_THAT(worker.ReceiveAndTrain(worker.To(update, left)), IsEmpty());
  worker.AddRows(4);
  WorkerOutput output;
  EXPECT_TRUE(absl::IsFailedPrecondition(worker.training().TryTrain(output)));
}

// ---- weights that cannot be used ----

TEST(WorkerTrainingTest, RefusesWeightsOfAnotherJobEpochShardOrShapeAndChangesNothing) {
  TrainingWorker worker(TrainingWorker::Options());
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
    WorkerOptions options = TrainingWorker::Options();
    options.training.set_scaling(random() % 2 == 0 ? Training::NONE : Training::RUNNING);
    TrainingWorker worker(options);
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

}  // namespace
}  // namespace millrace
