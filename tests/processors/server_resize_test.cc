// Of a job whose number of workers changes: when a shard lets them in, and whom it listens to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// Two workers, which may become four.
ServerOptions Growing(ConsistencyPolicy policy = kSequential, ShardId shard = 0,
                      uint32_t shards = 1) {
  ServerOptions options = SmallServer(policy);
  options.workers = 4;
  options.first_workers = 2;
  options.shard = shard;
  options.shards = shards;
  return options;
}

Gradient Order(uint64_t number, uint32_t workers) {
  Gradient order;
  order.set_epoch(1);
  order.set_worker(kNoWorker);
  order.mutable_resize()->set_number(number);
  order.mutable_resize()->set_workers(workers);
  return order;
}

Gradient RequestOf(uint64_t snapshot) {
  Gradient request;
  request.set_epoch(1);
  request.set_worker(kNoWorker);
  request.mutable_request_snapshot()->set_number(snapshot);
  return request;
}

// The worker's next update, as it makes it of what shard 0 tells.
Gradient Next(const TestServer& server, WorkerId worker, uint64_t resize = 0,
              uint32_t workers = 0) {
  Gradient update = Update(worker, server.processor().clocks().clock(worker), Same(1), kRange);
  update.set_joined(server.processor().joined(worker));
  update.mutable_update()->set_resize(resize);
  update.mutable_update()->set_workers(workers);
  return update;
}

Gradient LeaveOf(const TestServer& server, WorkerId worker) {
  Gradient leave = Message(Gradient::kLeave, worker, server.processor().clocks().clock(worker));
  leave.set_joined(server.processor().joined(worker));
  return leave;
}

// Those that have not left.
std::vector<uint32_t> There(const TestServer& server) {
  std::vector<uint32_t> there;
  for (const auto& [worker, entry] : server.processor().clocks().entries()) {
    if (!entry.left) there.push_back(worker);
  }
  return there;
}

void SendRound(TestServer& server, uint64_t resize = 0, uint32_t workers = 0) {
  for (const uint32_t worker : There(server)) {
    server.Send(Next(server, WorkerId(worker), resize, workers));
  }
}

TEST(ServerResizeTest, AShardBeginsWithTheFirstWorkersAndWaitsForNoOthers) {
  TestServer server(Growing());
  EXPECT_THAT(There(server), ElementsAre(0u, 1u));
  EXPECT_TRUE(server.Answer(3).left());
  SendRound(server);
  EXPECT_EQ(server.processor().clocks().clock(WorkerId(0)), 1u);
  EXPECT_FALSE(server.processor().has_been_there(WorkerId(2)));
}

TEST(ServerResizeTest, ASequentialJobIsToldWithTheNextRoundAndChangesAtTheEndOfThat) {
  TestServer server(Growing());
  server.Send(Next(server, 0));
  server.Send(Order(1, 4));
  EXPECT_EQ(server.Answer(1).moments().resize(), 0u) << "its update of this clock may be sent";
  server.Send(Next(server, 1));
  EXPECT_EQ(server.Answer(1).moments().resize(), 1u);
  EXPECT_EQ(server.Answer(1).moments().workers(), 4u);
  EXPECT_THAT(There(server), ElementsAre(0u, 1u));
  SendRound(server, 1, 4);
  EXPECT_THAT(There(server), ElementsAre(0u, 1u, 2u, 3u));
  EXPECT_EQ(server.processor().resize(), 1u);
  for (const uint32_t worker : {2, 3}) {
    EXPECT_EQ(server.processor().joined(WorkerId(worker)), 2u);
    EXPECT_EQ(server.Answer(WorkerId(worker)).clock(), 2u);
    EXPECT_TRUE(server.Answer(WorkerId(worker)).released());
  }
  server.Send(Next(server, 0, 1, 4));
  server.Send(Next(server, 1, 1, 4));
  server.Send(Next(server, 2, 1, 4));
  EXPECT_THAT(server.processor().WaitedFor(), ElementsAre(WorkerId(3)));
}

TEST(ServerResizeTest, AllShardsOfASequentialJobChangeWithTheSameRound) {
  TestServer other(Growing(kSequential, 1, 2));
  SendRound(other);
  EXPECT_THAT(There(other), ElementsAre(0u, 1u));
  other.Send(Next(other, 0, 1, 3));
  EXPECT_THAT(There(other), ElementsAre(0u, 1u)) << "the round is not complete";
  other.Send(Next(other, 1, 1, 3));
  EXPECT_THAT(There(other), ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(other.processor().joined(WorkerId(2)), 2u);
  other.Send(Order(2, 4));
  SendRound(other, 1, 3);
  EXPECT_THAT(There(other), ElementsAre(0u, 1u, 2u)) << "orders are for shard 0";
}

TEST(ServerResizeTest, AShardServesThePreviousRoundAsItWasTold) {
  TestServer server(Growing(kSequential, 0, 2));
  server.Send(Order(1, 3));
  SendRound(server);
  EXPECT_EQ(server.PreviousAnswer({.worker = 0}).moments().resize(), 0u);
  EXPECT_EQ(server.Answer(0).moments().resize(), 1u);
  SendRound(server, 1, 3);
  EXPECT_EQ(server.PreviousAnswer({.worker = 0}).moments().resize(), 1u);
}

TEST(ServerResizeTest, OtherJobsChangeAtOnceAndWhoComesIsTheSlowest) {
  TestServer server(Growing(ConsistencyPolicy::Bounded(2)));
  for (int i = 0; i < 3; ++i) server.Send(Next(server, 0));
  server.Send(Next(server, 1));
  const ServerOutput output = server.Send(Order(1, 3));
  EXPECT_THAT(There(server), ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(server.processor().joined(WorkerId(2)), 1u);
  EXPECT_THAT(output.answers, ElementsAre(WorkerId(2)));
  EXPECT_EQ(server.Answer(1).moments().workers(), 3u);
}

TEST(ServerResizeTest, AnotherShardHearsOfAWorkerFromItselfOrFromWhoLeaves) {
  for (const bool by_leave : {false, true}) {
    TestServer other(Growing(kEventual, 1, 2));
    EXPECT_TRUE(other.Answer(2).left());
    if (by_leave) {
      Gradient leave = LeaveOf(other, 0);
      leave.mutable_leave()->add_joined()->set_worker(2);
      leave.mutable_leave()->mutable_joined(0)->set_clock(5);
      other.Send(leave);
      other.Send(LeaveOf(other, 1));
      EXPECT_FALSE(other.processor().AllLeft());
    } else {
      Gradient ask = Message(Gradient::kAsk, 2, 0);
      ask.set_joined(5);
      EXPECT_THAT(other.Send(ask).answers, testing::Contains(WorkerId(2)));
    }
    EXPECT_EQ(other.Answer(2).clock(), 5u);
    EXPECT_TRUE(other.Answer(2).released());
    other.Send(Next(other, 2));
    EXPECT_EQ(other.Answer(2).clock(), 6u);
  }
}

TEST(ServerResizeTest, WhoLeavesMayTellOfAWorkerThatIsBehindAllOthers) {
  TestServer other(Growing(ConsistencyPolicy::Bounded(2), 1, 2));
  for (int round = 0; round < 4; ++round) SendRound(other);
  Gradient leave = LeaveOf(other, 0);
  leave.mutable_leave()->add_joined()->set_worker(2);
  leave.mutable_leave()->mutable_joined(0)->set_clock(1);
  other.Send(leave);
  EXPECT_THAT(There(other), ElementsAre(1u, 2u));
  EXPECT_EQ(other.processor().clocks().clock(WorkerId(2)), 1u);
  other.Send(Next(other, 2));
  other.Send(Next(other, 2));
  EXPECT_TRUE(other.Answer(1).released()) << "the new worker has come within 2 of it";
}

TEST(ServerResizeTest, AWorkerThatComesAgainIsNotTakenForTheOneThatHasLeft) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(Growing(policy));
    SendRound(server);
    const Gradient old_leave = LeaveOf(server, 1);
    server.Send(old_leave);
    server.Send(Order(1, 1));
    SendRound(server, 0, 0);
    SendRound(server, 1, 1);
    EXPECT_THAT(There(server), ElementsAre(0u));
    server.Send(Order(2, 2));
    SendRound(server, 1, 1);
    SendRound(server, 2, 2);
    ASSERT_THAT(There(server), ElementsAre(0u, 1u));
    const Clock joined = server.processor().joined(1);
    EXPECT_GT(joined, 1u) << "where it has left";
    const Clock clock = server.processor().clocks().clock(1);
    Gradient zombie = Update(1, clock, Same(1), kRange);
    server.Send(zombie);
    zombie.clear_update();
    zombie.mutable_leave();
    server.Send(zombie);
    server.Send(old_leave);
    EXPECT_THAT(There(server), ElementsAre(0u, 1u));
    EXPECT_EQ(server.processor().clocks().clock(1), clock);
    SendRound(server, 2, 2);
    EXPECT_EQ(server.processor().clocks().clock(1), clock + 1);
  }
}

TEST(ServerResizeTest, AnOrderOfBeforeAndOneThatIsRepeatedChangeNothing) {
  TestServer server(Growing(kEventual));
  server.Send(Order(2, 3));
  const std::string state = server.StateBytes();
  server.Send(Order(1, 4));
  server.Send(Order(2, 3));
  EXPECT_EQ(server.StateBytes(), state);
  EXPECT_THAT(There(server), ElementsAre(0u, 1u, 2u));
}

TEST(ServerResizeTest, BadOrdersAreRefused) {
  TestServer server(Growing(kEventual));
  Gradient of_a_worker = Order(1, 3);
  of_a_worker.set_worker(0);
  for (const Gradient& order : {Order(0, 3), Order(1, 0), Order(1, 5), of_a_worker}) {
    EXPECT_EQ(server.Send(order).dead_letters.size(), 1u) << order.DebugString();
  }
  EXPECT_THAT(There(server), ElementsAre(0u, 1u));
  TestServer fixed(SmallServer());
  fixed.Send(Order(1, 2));
  EXPECT_EQ(fixed.processor().resize(), 0u) << "of a job whose workers stay";
}

TEST(ServerResizeTest, ASnapshotAndAChangeWaitForEachOther) {
  TestServer server(Growing(kEventual));
  server.Send(RequestOf(1));
  ASSERT_EQ(server.processor().open_snapshot(), 1u);
  server.Send(Order(1, 3));
  EXPECT_THAT(There(server), ElementsAre(0u, 1u)) << "the cut has no worker 2";
  bool at_cut = false;
  for (int i = 0; i < 3; ++i) {
    for (const WorkerId worker : {WorkerId(0), WorkerId(1)}) {
      server.Send(Next(server, worker));
      if (!server.processor().at_cut()) continue;
      at_cut = true;
      EXPECT_THAT(There(server), ElementsAre(0u, 1u));
      ServerOutput output;
      ASSERT_EQ(server.processor().LeaveCut(output), absl::OkStatus());
    }
  }
  EXPECT_TRUE(at_cut);
  EXPECT_THAT(There(server), ElementsAre(0u, 1u, 2u)) << "all are past the cut";
  server.Send(RequestOf(2));
  EXPECT_NE(server.processor().newest_snapshot(), 2u) << "other shards may not know the worker";
  server.Send(Next(server, 2));
  server.Send(RequestOf(3));
  EXPECT_EQ(server.processor().newest_snapshot(), 3u);
}

TEST(ServerResizeTest, ItsStateIsSavedWithTheChangeThatIsUnderWay) {
  for (const int rounds : {0, 1, 2, 3}) {
    TestServer server(Growing());
    server.Send(Order(1, 4));
    for (int i = 0; i < rounds; ++i) SendRound(server, i > 0 ? 1 : 0, i > 0 ? 4 : 0);
    ShardState state;
    server.processor().SaveState(state);
    TestServer again(Growing());
    ASSERT_EQ(again.processor().LoadState(state), absl::OkStatus());
    EXPECT_EQ(again.StateBytes(), server.StateBytes());
    for (TestServer* const one : {&server, &again}) {
      for (int i = rounds; i < 4; ++i) SendRound(*one, i > 0 ? 1 : 0, i > 0 ? 4 : 0);
    }
    EXPECT_EQ(again.StateBytes(), server.StateBytes());
    EXPECT_THAT(There(again), ElementsAre(0u, 1u, 2u, 3u));
  }
}

}  // namespace
}  // namespace millrace
