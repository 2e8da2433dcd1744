// When shard 0 begins a snapshot because of Training.snapshot_every.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

ServerOptions Every(uint64_t steps, ConsistencyPolicy policy = kSequential) {
  ServerOptions options = SmallServer(policy);
  options.snapshot_every = steps;
  return options;
}

// One round of all three workers; what has reached its cut leaves it. Returns the snapshot that was
// cut, if one was.
std::optional<uint64_t> Round(TestServer& server, int64_t now_ms = 0) {
  std::optional<uint64_t> cut;
  for (WorkerId worker = 0; worker < 3; ++worker) {
    const Clock clock = server.processor().clocks().clock(worker);
    const ServerOutput output = server.Send(Update(worker, clock, Same(1), kRange), now_ms);
    if (!output.snapshot) continue;
    cut = output.snapshot;
    ServerOutput after;
    EXPECT_TRUE(server.processor().LeaveCut(after).ok());
  }
  return cut;
}

TEST(PeriodicSnapshots, BeginWithTheRoundThatMakesTheLastStep) {
  TestServer server(Every(5));
  std::vector<int> begun;
  std::vector<int> cut;
  for (int round = 1; round <= 17; ++round) {
    const uint64_t before = server.processor().newest_snapshot();
    if (Round(server)) cut.push_back(round);
    if (server.processor().newest_snapshot() > before) begun.push_back(round);
  }
  EXPECT_EQ(begun, (std::vector<int>{5, 10, 15}));
  EXPECT_EQ(cut, (std::vector<int>{7, 12, 17})) << "as far ahead as any other's";
}

TEST(PeriodicSnapshots, CountUpdatesWhereThereAreNoRounds) {
  TestServer server(Every(6, kEventual));
  for (int i = 0; i < 5; ++i) server.SendNext(0);
  EXPECT_EQ(server.processor().open_snapshot(), std::nullopt);
  server.SendNext(1);
  EXPECT_NE(server.processor().open_snapshot(), std::nullopt);
}

TEST(PeriodicSnapshots, HaveTheTimeOfTheLogAsNumber) {
  TestServer server(Every(3));
  for (int round = 0; round < 3; ++round) Round(server, 1000 + round);
  EXPECT_EQ(server.processor().open_snapshot(), 1002u);
  for (int round = 0; round < 9; ++round) Round(server, 1002);
  EXPECT_EQ(server.processor().newest_snapshot(), 1005u) << "ascending, also where no time passes";
}

TEST(PeriodicSnapshots, WaitForOneThatIsUnderWay) {
  TestServer server(Every(2));
  Gradient request = Message(Gradient::KIND_NOT_SET, 0xffffffff, 0);
  request.clear_clock();
  request.mutable_request_snapshot()->set_number(7);
  Round(server);
  server.Send(request);
  EXPECT_EQ(Round(server), std::nullopt);
  EXPECT_EQ(server.processor().open_snapshot(), 7u) << "the second round begins none";
  EXPECT_EQ(Round(server), 7u);
  Round(server);
  EXPECT_EQ(server.processor().open_snapshot(), 8u) << "as soon as there can be one";
}

TEST(PeriodicSnapshots, TakeThePlaceOfARequestThatWaits) {
  TestServer server(Every(5));
  for (int round = 0; round < 7; ++round) Round(server);  // the first one is cut
  Gradient request = Message(Gradient::KIND_NOT_SET, 0xffffffff, 0);
  request.clear_clock();
  request.mutable_request_snapshot()->set_number(1'000'000);
  server.Send(request);
  EXPECT_EQ(server.processor().open_snapshot(), 1'000'000u) << "until all are past the last cut";
  for (int round = 0; round < 3; ++round) Round(server, 1002);
  EXPECT_EQ(server.processor().open_snapshot(), 1002u);
}

// Whoever restores the state begins the next one at the same step.
TEST(PeriodicSnapshots, AreAPartOfTheState) {
  TestServer server(Every(4));
  for (int round = 0; round < 6; ++round) Round(server);
  ShardState state;
  server.processor().SaveState(state);
  EXPECT_EQ(state.snapshot_steps(), 4u);
  TestServer other(Every(4));
  ASSERT_TRUE(other.processor().LoadState(state).ok());
  for (int round = 0; round < 6; ++round) {
    EXPECT_EQ(Round(server), Round(other)) << round;
    EXPECT_EQ(server.processor().newest_snapshot(), other.processor().newest_snapshot());
  }
  EXPECT_EQ(server.StateBytes(), other.StateBytes());
}

TEST(PeriodicSnapshots, AStateThatIsAheadOfItsStepsIsRefused) {
  TestServer server(Every(4));
  for (int round = 0; round < 6; ++round) Round(server);
  ShardState state;
  server.processor().SaveState(state);
  state.set_snapshot_steps(7);
  TestServer other(Every(4));
  EXPECT_TRUE(absl::IsDataLoss(other.processor().LoadState(state)));
}

TEST(PeriodicSnapshots, AreShardZerosToBegin) {
  ServerOptions options = Every(2);
  options.shard = 1;
  options.shards = 2;
  TestServer server(options);
  for (int round = 0; round < 6; ++round) Round(server);
  EXPECT_EQ(server.processor().newest_snapshot(), 0u);
}

TEST(PeriodicSnapshots, AreNoneWithoutASetting) {
  TestServer server(Every(0));
  for (int round = 0; round < 6; ++round) Round(server);
  EXPECT_EQ(server.processor().newest_snapshot(), 0u);
}

}  // namespace
}  // namespace millrace
