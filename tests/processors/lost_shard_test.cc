// A shard of which no copy is left goes on from what the workers have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// What a worker says that was told of `clock`: weights that are all `value`.
Gradient Restore(const TestServer& server, WorkerId worker, Clock clock, float value) {
  Gradient message = Message(Gradient::kRestore, worker, clock);
  EncodeDenseSlice(std::vector<float>(server.options().range.size(), value), server.options().range,
                   *message.mutable_restore()->mutable_slice());
  Moments moments(1);
  moments.count = {static_cast<double>(clock)};
  ToProto(moments, *message.mutable_restore()->mutable_moments());
  message.mutable_restore()->mutable_rows()->set_end(10 * clock + uint64_t{worker});
  return message;
}

Gradient KnowsNothing(WorkerId worker) {
  Gradient message = Message(Gradient::kRestore, worker, 0);
  message.clear_clock();
  return message;
}

std::vector<Clock> ClocksOf(const TestServer& server) {
  std::vector<Clock> clocks;
  for (const auto& [worker, entry] : server.processor().clocks().entries()) {
    clocks.push_back(entry.clock);
  }
  return clocks;
}

class LostShard : public testing::Test {
 protected:
  explicit LostShard(ConsistencyPolicy policy = ConsistencyPolicy::Sequential())
      : server_(Momentum(policy)) {
    server_.processor().MarkStateLost();
  }
  static ServerOptions Momentum(ConsistencyPolicy policy) {
    ServerOptions options = SmallServer(policy);
    options.optimizer.kind = OptimizerOptions::Kind::kMomentum;
    return options;
  }

  TestServer server_;
};

class LostEventualShard : public LostShard {
 protected:
  LostEventualShard() : LostShard(ConsistencyPolicy::Eventual()) {}
};

TEST_F(LostShard, AsksWhoeverSaysAnythingAndTakesNothingElse) {
  const std::string before = server_.StateBytes();
  EXPECT_THAT(server_.SendNext(0).answers, ElementsAreArray<WorkerId>({0}));
  EXPECT_THAT(server_.Send(Message(Gradient::kAsk, 1, 0)).answers, ElementsAreArray<WorkerId>({1}));
  EXPECT_THAT(server_.Send(Message(Gradient::kLeave, 2, 0)).answers,
              ElementsAreArray<WorkerId>({2}));
  EXPECT_EQ(server_.StateBytes(), before);
  EXPECT_THAT(server_.weights(), Each(0.0f));
  const Weights answer = server_.Answer(1);
  EXPECT_TRUE(answer.lost());
  EXPECT_FALSE(answer.released());
  EXPECT_FALSE(answer.has_slice());
  EXPECT_THAT(server_.processor().WaitedFor(), ElementsAreArray<WorkerId>({0, 1, 2}));
}

TEST_F(LostShard, GoesOnFromTheNewestWeightsWhenAllHaveSpoken) {
  EXPECT_THAT(server_.Send(Restore(server_, 2, 4, 0.4f)).answers, IsEmpty());
  EXPECT_THAT(server_.Send(Restore(server_, 0, 5, 0.5f)).answers, IsEmpty());
  EXPECT_TRUE(server_.processor().state_lost());
  EXPECT_THAT(server_.processor().WaitedFor(), ElementsAreArray<WorkerId>({1}));
  EXPECT_THAT(server_.Send(KnowsNothing(1)).answers, ElementsAreArray<WorkerId>({0, 1, 2}));
  EXPECT_FALSE(server_.processor().state_lost());
  EXPECT_THAT(server_.weights(), Each(0.5f));
  EXPECT_EQ(server_.processor().moments().count[0], 5);
  EXPECT_EQ(server_.processor().steps(), 5u);
  // Somebody was told of the end of round 4: it was everybody's.
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({5, 5, 5}));
  EXPECT_EQ(server_.processor().rows_end(0), 50u);
  EXPECT_EQ(server_.processor().rows_end(1), 0u);
  EXPECT_EQ(server_.processor().rows_end(2), 42u);
  const Weights answer = server_.Answer(2);
  EXPECT_FALSE(answer.lost());
  EXPECT_TRUE(answer.released());
  EXPECT_EQ(answer.clock(), 5u);
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2}) server_.SendNext(worker);
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({6, 6, 6}));
  EXPECT_THAT(server_.weights(), Each(0.0f)) << "0.5 - 0.5 * 1, without a momentum of before";
}

TEST_F(LostShard, ItsBlocksAreSavedWithTheNextCheckpoint) {
  server_.processor().mutable_shard().TakeUpdated();
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2})
    server_.Send(Restore(server_, worker, 3, 0.25f));
  EXPECT_THAT(server_.processor().mutable_shard().TakeUpdated(), ElementsAre(0));
}

TEST_F(LostShard, WhoHasLeftStaysSo) {
  Gradient left = Message(Gradient::kRestore, 1, 2);
  left.mutable_restore()->set_left(true);
  server_.Send(Restore(server_, 0, 5, 0.5f));
  server_.Send(left);
  server_.Send(Restore(server_, 2, 5, 0.5f));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({5, 2, 5}));
  EXPECT_TRUE(server_.processor().clocks().left(1));
}

TEST_F(LostShard, OfTwoInstancesOfAWorkerTheOneCountsThatKnowsMore) {
  server_.Send(Restore(server_, 0, 5, 0.5f));
  server_.Send(KnowsNothing(0));
  server_.Send(Restore(server_, 0, 4, 0.4f));
  server_.Send(KnowsNothing(1));
  server_.Send(KnowsNothing(2));
  EXPECT_THAT(server_.weights(), Each(0.5f));
}

TEST_F(LostShard, TakesTheNewestWeightsWhicheverWorkerHasThem) {
  for (const WorkerId newest : std::vector<WorkerId>{0, 1, 2}) {
    TestServer server(server_.options());
    server.processor().MarkStateLost();
    for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2}) {
      const bool is_newest = worker == newest;
      server.Send(
          Restore(server, worker, is_newest ? Clock(5) : Clock(4), is_newest ? 0.5f : 0.4f));
    }
    EXPECT_THAT(server.weights(), Each(0.5f)) << "of worker " << newest;
    EXPECT_EQ(server.processor().moments().count[0], 5);
    EXPECT_EQ(server.processor().steps(), 5u);
  }
}

TEST_F(LostShard, AnInstanceThatIsFurtherButHasNoWeightsLeavesThoseOfTheOther) {
  for (const bool further_first : {false, true}) {
    TestServer server(server_.options());
    server.processor().MarkStateLost();
    Gradient further = Message(Gradient::kRestore, 0, 6);
    further.mutable_restore()->mutable_rows()->set_end(60);
    const Gradient with_weights = Restore(server, 0, 4, 0.4f);
    server.Send(further_first ? further : with_weights);
    server.Send(further_first ? with_weights : further);
    server.Send(KnowsNothing(1));
    EXPECT_TRUE(server.processor().state_lost());
    server.Send(KnowsNothing(2));
    EXPECT_THAT(server.weights(), Each(0.4f));
    EXPECT_THAT(ClocksOf(server), ElementsAreArray<Clock>({6, 6, 6}));
    EXPECT_EQ(server.processor().rows_end(0), 60u) << "no row is trained on again";
  }
}

TEST_F(LostShard, OfTwoInstancesOfAWorkerTheOneCountsThatHasLeft) {
  for (const bool left_first : {false, true}) {
    TestServer server(server_.options());
    server.processor().MarkStateLost();
    Gradient left = Message(Gradient::kRestore, 0, 5);
    left.mutable_restore()->set_left(true);
    const Gradient present = Restore(server, 0, 5, 0.9f);
    server.Send(left_first ? left : present);
    server.Send(left_first ? present : left);
    server.Send(Restore(server, 1, 5, 0.5f));
    server.Send(Restore(server, 2, 5, 0.5f));
    EXPECT_TRUE(server.processor().clocks().left(0)) << left_first;
    EXPECT_THAT(server.weights(), Each(0.5f));
  }
}

TEST_F(LostShard, WaitsUntilSomebodyHasWeightsThatAreNumbers) {
  for (const WorkerId worker : std::vector<WorkerId>{0, 1}) server_.Send(KnowsNothing(worker));
  server_.Send(Restore(server_, 2, 5, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_TRUE(server_.processor().state_lost());
  server_.Send(Restore(server_, 1, 4, 0.4f));
  EXPECT_FALSE(server_.processor().state_lost());
  EXPECT_THAT(server_.weights(), Each(0.4f));
}

TEST_F(LostShard, ACopyOfOtherWeightsIsRefused) {
  Gradient wrong = Restore(server_, 0, 5, 0.5f);
  wrong.mutable_restore()->mutable_slice()->mutable_dense()->RemoveLast();
  EXPECT_EQ(server_.Send(wrong).dead_letters.size(), 1u);
  wrong.mutable_restore()
      ->mutable_slice()
      ->clear_dense();  // none is a change of nothing, but no copy
  EXPECT_EQ(server_.Send(wrong).dead_letters.size(), 1u);
  EXPECT_THAT(server_.processor().WaitedFor(), ElementsAreArray<WorkerId>({0, 1, 2}));
}

TEST_F(LostShard, GoesOnWaitingFromASavedState) {
  server_.Send(Restore(server_, 0, 5, 0.5f));
  ShardState state;
  server_.processor().SaveState(state);
  TestServer loaded(server_.options());
  ASSERT_TRUE(loaded.processor().LoadState(state).ok());
  for (TestServer* server : {&server_, &loaded}) {
    EXPECT_THAT(server->processor().WaitedFor(), ElementsAreArray<WorkerId>({1, 2}));
    server->Send(KnowsNothing(1));
    server->Send(KnowsNothing(2));
    EXPECT_THAT(server->weights(), Each(0.5f));
  }
  EXPECT_EQ(loaded.StateBytes(), server_.StateBytes());
}

TEST_F(LostEventualShard, EachWorkerGoesOnFromWhereItSaysAndWhoKnowsNothingFromTheLeast) {
  server_.Send(Restore(server_, 0, 9, 0.9f));
  server_.Send(KnowsNothing(1));
  server_.Send(Restore(server_, 2, 5, 0.5f));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({9, 5, 5}));
  EXPECT_THAT(server_.weights(), Each(0.9f));
}

TEST_F(LostEventualShard, OfTwoWorkersWithWeightsOfOneClockTheFirstCounts) {
  server_.Send(Restore(server_, 2, 5, 0.7f));
  server_.Send(Restore(server_, 1, 5, 0.3f));
  server_.Send(Restore(server_, 0, 4, 0.1f));
  EXPECT_THAT(server_.weights(), Each(0.3f)) << "whatever the order in which they came";
}

TEST_F(LostEventualShard, WhereAWorkerLeftIsNotWhereOneThatKnowsNothingGoesOn) {
  Gradient left = Message(Gradient::kRestore, 0, 2);
  left.mutable_restore()->set_left(true);
  server_.Send(left);
  server_.Send(Restore(server_, 1, 9, 0.9f));
  server_.Send(KnowsNothing(2));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({2, 9, 9}));
}

// Its rows before the committed one were deleted: at an older clock it could never go on.
TEST_F(LostEventualShard, AWorkerThatStartedAgainIsNotSentInFrontOfItsDeletedRows) {
  server_.Send(Restore(server_, 0, 9, 0.9f));
  Gradient restarted = KnowsNothing(1);
  restarted.mutable_restore()->set_committed_row(70);
  restarted.mutable_restore()->set_least_clock(7);
  server_.Send(restarted);
  server_.Send(Restore(server_, 2, 5, 0.5f));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({9, 7, 5}));
  EXPECT_EQ(server_.processor().rows_end(1), 70u);
}

TEST_F(LostShard, NoRoundIsInFrontOfDeletedRows) {
  server_.Send(Restore(server_, 0, 5, 0.5f));
  Gradient restarted = KnowsNothing(1);
  restarted.mutable_restore()->set_committed_row(60);
  restarted.mutable_restore()->set_least_clock(6);
  server_.Send(restarted);
  server_.Send(KnowsNothing(2));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({6, 6, 6}));
}

// Where the others have seen the end of the round, the worker's update was in it.
TEST_F(LostShard, RowsOfAnUpdateThatWasAcceptedAreCountedOnce) {
  Gradient behind = Restore(server_, 1, 4, 0.4f);
  const uint64_t counted = behind.restore().rows().end();
  behind.mutable_restore()->add_sent_rows(counted + 10);
  server_.Send(behind);
  server_.Send(Restore(server_, 0, 5, 0.5f));
  server_.Send(KnowsNothing(2));
  ASSERT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({5, 5, 5}));
  EXPECT_EQ(server_.processor().rows_end(1), counted + 10);
}

TEST_F(LostShard, RowsOfAnUpdateThatMayNotHaveBeenAcceptedAreNotCounted) {
  Gradient sent = Restore(server_, 1, 5, 0.5f);
  const uint64_t counted = sent.restore().rows().end();
  sent.mutable_restore()->add_sent_rows(counted + 10);
  server_.Send(sent);
  server_.Send(Restore(server_, 0, 5, 0.5f));
  server_.Send(KnowsNothing(2));
  EXPECT_EQ(server_.processor().rows_end(1), counted);
}

// Its older instance has sent an update; the newer one knows its clock, but not its rows.
TEST_F(LostShard, WhatAnOlderInstanceHasSentIsCountedIfTheWorkerHasGoneOn) {
  Gradient older = Restore(server_, 1, 4, 0.4f);
  const uint64_t counted = older.restore().rows().end();
  older.mutable_restore()->add_sent_rows(counted + 10);
  Gradient newer = Message(Gradient::kRestore, 1, 5);
  for (const bool is_turned : {false, true}) {
    TestServer server(server_.options());
    server.processor().MarkStateLost();
    server.Send(is_turned ? newer : older);
    server.Send(is_turned ? older : newer);
    server.Send(KnowsNothing(0));
    server.Send(KnowsNothing(2));
    EXPECT_EQ(server.processor().rows_end(1), counted + 10);
  }
}

// A zombie has reported in place of its successor, which knows more.
TEST_F(LostEventualShard, ALateReportMovesItsWorkerOn) {
  server_.Send(Restore(server_, 0, 9, 0.9f));
  server_.Send(Restore(server_, 1, 4, 0.4f));
  server_.Send(KnowsNothing(2));
  ASSERT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({9, 4, 4}));
  ShardState state;
  server_.processor().SaveState(state);
  TestServer loaded(server_.options());
  ASSERT_TRUE(loaded.processor().LoadState(state).ok());
  for (TestServer* server : {&server_, &loaded}) {
    EXPECT_THAT(server->Send(Restore(*server, 1, 6, 0.6f)).answers,
                ElementsAreArray<WorkerId>({0, 1, 2}));
    EXPECT_THAT(ClocksOf(*server), ElementsAreArray<Clock>({9, 6, 4}));
    EXPECT_EQ(server->processor().rows_end(1), 61u);
    server->Send(Restore(*server, 1, 5, 0.5f));
    EXPECT_THAT(ClocksOf(*server), ElementsAreArray<Clock>({9, 6, 4})) << "never back";
    Gradient restarted = KnowsNothing(2);
    restarted.mutable_restore()->set_committed_row(70);
    restarted.mutable_restore()->set_least_clock(7);
    server->Send(restarted);
    EXPECT_THAT(ClocksOf(*server), ElementsAreArray<Clock>({9, 6, 7}))
        << "the rows before were deleted";
    Gradient left = Message(Gradient::kRestore, 0, 9);
    left.mutable_restore()->set_left(true);
    server->Send(left);
    EXPECT_TRUE(server->processor().clocks().left(0));
  }
}

TEST_F(LostShard, ALateReportMovesTheRoundOn) {
  server_.Send(Restore(server_, 0, 4, 0.4f));
  server_.Send(KnowsNothing(1));
  server_.Send(KnowsNothing(2));
  server_.SendNext(0);
  ASSERT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({4, 4, 4}));
  server_.Send(Restore(server_, 2, 5, 0.5f));
  EXPECT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({5, 5, 5}));
  EXPECT_THAT(server_.processor().WaitedFor(), IsEmpty()) << "what was held is of a round before";
}

TEST_F(LostShard, ALateReportThatItsWorkerHasLeftEndsTheRoundThatWaitsForIt) {
  server_.Send(Restore(server_, 0, 4, 0.4f));
  server_.Send(KnowsNothing(1));
  server_.Send(KnowsNothing(2));
  server_.SendNext(0);
  server_.SendNext(1);
  ASSERT_THAT(ClocksOf(server_), ElementsAreArray<Clock>({4, 4, 4}));
  Gradient left = Message(Gradient::kRestore, 2, 4);
  left.mutable_restore()->set_left(true);
  server_.Send(left);
  EXPECT_TRUE(server_.processor().clocks().left(2));
  EXPECT_EQ(server_.processor().clocks().clock(0), 5u);
  EXPECT_EQ(server_.processor().clocks().clock(1), 5u);
}

TEST(ServerProcessor, ACopyOfferedToAShardThatHasItsStateIsAnsweredAndChangesNothing) {
  TestServer server(SmallServer());
  server.SendNext(0);
  const std::string before = server.StateBytes();
  EXPECT_THAT(server.Send(Restore(server, 1, 0, 0.7f)).answers, ElementsAreArray<WorkerId>({1}))
      << "although its clock is the present one";
  EXPECT_EQ(server.StateBytes(), before);
  EXPECT_THAT(server.weights(), Each(0.0f));
}

}  // namespace
}  // namespace millrace
