// Of a job that acts on drifts: who is told of one, and what a shard forgets then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "models/online_learner.h"
#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// A column, the bias, and the race with what fills it up; three workers.
constexpr size_t kBlock = OnlineRace::kValues;
constexpr size_t kRace = 2 * kBlock;
constexpr KeyRange kKeys = {0, 2 * kRace};

bool IsCurvature(uint64_t key) { return key < kRace && key % kBlock == OnlineRace::kCurvature; }

ServerOptions Learner(ConsistencyPolicy policy = kSequential, KeyRange range = kKeys) {
  ServerOptions options = SmallServer(policy);
  options.range = range;
  options.penalised_end = 0;
  options.optimizer = {.kind = OptimizerOptions::Kind::kSum};
  options.drift_pace = {.block_rows = 4, .first_blocks = 5};
  options.forgets = OnlineForgetting{.weights_end = kRace};
  return options;
}

Gradient Change(const TestServer& server, WorkerId worker, uint64_t drifts, float value = 0) {
  const KeyRange range = server.options().range;
  Gradient update = Update(worker, server.processor().clocks().clock(worker),
                           std::vector<float>(range.size(), value), range);
  update.mutable_update()->set_drifts(drifts);
  return update;
}

void SendRound(TestServer& server, uint64_t drifts, float value = 0) {
  for (WorkerId worker = 0; worker < 3; ++worker)
    server.Send(Change(server, worker, drifts, value));
}

std::vector<float> Curvatures(const TestServer& server) {
  std::vector<float> values;
  const KeyRange range = server.options().range;
  for (uint64_t key = range.begin; key < range.end; ++key) {
    if (IsCurvature(key)) values.push_back(server.weights()[key - range.begin]);
  }
  return values;
}

TEST(ForgettingTest, AShardForgetsOnceWithTheFirstRoundThatTellsOfADrift) {
  TestServer server(Learner());
  SendRound(server, 0, 64);
  EXPECT_THAT(Curvatures(server), ElementsAre(192, 192));
  server.Send(Change(server, 0, 0));
  server.Send(Change(server, 1, 1));
  EXPECT_THAT(Curvatures(server), ElementsAre(192, 192)) << "the round is not complete";
  server.Send(Change(server, 2, 0));
  EXPECT_THAT(Curvatures(server), ElementsAre(3, 3));
  for (uint64_t key = 0; key < kKeys.end; ++key) {
    const bool is_loss = key >= kRace && key < kRace + OnlineRace::kRacers;
    if (IsCurvature(key)) continue;
    EXPECT_EQ(server.weights()[key], is_loss ? 12 : 192) << key;
  }
  SendRound(server, 1);
  EXPECT_THAT(Curvatures(server), ElementsAre(3, 3)) << "once";
  SendRound(server, 2, 64);
  EXPECT_THAT(Curvatures(server), ElementsAre(195.0f / 64, 195.0f / 64))
      << "and what the round has learnt, too";
}

TEST(ForgettingTest, AllShardsForgetTheirOwnKeysWithTheSameRound) {
  TestServer whole(Learner());
  ServerOptions first = Learner(kSequential, {0, 10});
  first.shards = 2;
  ServerOptions second = Learner(kSequential, {10, kKeys.end});
  second.shards = 2;
  second.shard = 1;
  TestServer servers[] = {TestServer(first), TestServer(second)};
  for (const uint64_t drifts : {0, 0, 1, 1, 2}) {
    SendRound(whole, drifts, 1.5);
    std::vector<float> joined;
    for (TestServer& server : servers) {
      SendRound(server, drifts, 1.5);
      const std::vector<float> part = server.weights();
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole.weights());
  }
}

TEST(ForgettingTest, WithoutRoundsItIsTheFirstUpdateThatTellsOfIt) {
  for (const ConsistencyPolicy& policy : {kEventual, ConsistencyPolicy::Bounded(2)}) {
    TestServer server(Learner(policy));
    server.Send(Change(server, 0, 0, 64));
    server.Send(Change(server, 1, 1));
    EXPECT_THAT(Curvatures(server), ElementsAre(1, 1));
    server.Send(Change(server, 2, 1));
    server.Send(Change(server, 0, 0));
    EXPECT_THAT(Curvatures(server), ElementsAre(1, 1));
  }
}

TEST(ForgettingTest, AnUpdateThatCountsAsAnEmptyOneTellsOfADriftAllTheSame) {
  TestServer server(Learner());
  SendRound(server, 0, 64);
  for (WorkerId worker = 0; worker < 3; ++worker) {
    server.Send(Change(server, worker, 1, std::numeric_limits<float>::infinity()));
  }
  EXPECT_EQ(server.processor().counters().non_finite_updates(), 3u);
  EXPECT_THAT(Curvatures(server), ElementsAre(3, 3));
}

TEST(ForgettingTest, Shard0TellsWorkersOfADriftFromTheNextClockOn) {
  ServerOptions options = Learner();
  options.shards = 2;
  options.workers = 1;
  TestServer server(options);
  const auto send = [&](double loss) {
    Gradient update = WithProgressive(Change(server, 0, 0), 4);
    update.mutable_update()->mutable_progressive()->set_log_loss(4 * loss);
    server.Send(update);
  };
  for (int i = 0; i < 20; ++i) send(i % 2 == 0 ? 0.4 : 0.3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(server.Answer(0).moments().drifts(), 0u);
    send(1.5);
  }
  EXPECT_EQ(server.processor().drift().last().count, 1u);
  EXPECT_EQ(server.Answer(0).moments().drifts(), 1u);
  EXPECT_EQ(server.PreviousAnswer({.worker = 0}).moments().drifts(), 0u);
  SharedWeights shared;
  ASSERT_TRUE(shared.ParseFromString(server.processor().SharedAnswer(1, {})->Joined()));
  EXPECT_EQ(shared.moments().drifts(), 1u);
  send(0.3);
  EXPECT_EQ(server.PreviousAnswer({.worker = 0}).moments().drifts(), 1u);
}

TEST(ForgettingTest, AJobThatOnlyReportsDriftsTellsWorkersOfNone) {
  ServerOptions options = Learner(kEventual);
  options.forgets.reset();
  TestServer server(options);
  for (int i = 0; i < 22; ++i) {
    Gradient update = WithProgressive(Change(server, 0, 0, 1), 4);
    update.mutable_update()->mutable_progressive()->set_log_loss(i < 20 ? i % 2 : 20);
    server.Send(update);
  }
  EXPECT_EQ(server.processor().drift().last().count, 1u);
  EXPECT_EQ(server.Answer(0).moments().drifts(), 0u);
  server.Send(Change(server, 0, 1));
  EXPECT_THAT(Curvatures(server), ElementsAre(22, 22));
}

TEST(ForgettingTest, ARestoredShardKnowsWhatItHasForgotten) {
  TestServer server(Learner());
  SendRound(server, 0, 64);
  SendRound(server, 1);
  server.Send(Change(server, 0, 1));
  ShardState state;
  server.processor().SaveState(state);
  TestServer other(Learner());
  ASSERT_TRUE(other.processor().LoadState(state).ok());
  std::ranges::copy(server.weights(), other.processor().mutable_shard().mutable_weights().begin());
  for (TestServer* each : {&server, &other}) {
    each->Send(Change(*each, 1, 1));
    each->Send(Change(*each, 2, 1));
    EXPECT_THAT(Curvatures(*each), ElementsAre(3, 3));
    SendRound(*each, 2);
    EXPECT_THAT(Curvatures(*each), ElementsAre(3.0f / 64, 3.0f / 64));
  }
  EXPECT_EQ(other.weights(), server.weights());
}

TEST(ForgettingTest, AnEmbeddingRowForgetsWhateverUpdatesNameIt) {
  ServerOptions options = Learner();
  options.shards = 2;
  options.workers = 1;
  options.embeddings = EmbeddingTableOptions{.initial_limit = std::vector<float>(kBlock)};
  options.row_linear_end = kBlock;
  MemoryByteMap store;
  TestServer server(options, &store);
  const auto send = [&](uint64_t drifts, const std::vector<EmbeddingId>& ids) {
    Gradient update = Change(server, 0, drifts);
    EmbeddingBlock& rows = *update.mutable_update()->mutable_embeddings();
    for (const EmbeddingId id : ids) {
      rows.add_id(id);
      for (size_t i = 0; i < kBlock; ++i) rows.add_value(64);
    }
    server.Send(update);
  };
  const auto row = [&](EmbeddingId id) {
    std::vector<float> values(kBlock);
    EXPECT_TRUE(server.processor().ReadEmbeddings({&id, 1}, values).ok());
    return values;
  };
  // (Of two shards the first has these.)
  std::vector<EmbeddingId> ids;
  for (EmbeddingId id = 1; ids.size() < 2; ++id) {
    if (ShardOfEmbedding(id, 2) == 0) ids.push_back(id);
  }
  send(0, ids);
  send(1, {ids[0]});
  EXPECT_THAT(row(ids[0]), ElementsAre(128, 128, 128, 128, 128, 128, 128, 2));
  EXPECT_THAT(row(ids[1]), ElementsAre(64, 64, 64, 64, 64, 64, 64, 1)) << "no update has named it";
  const Weights before = server.PreviousAnswer({.worker = 0, .wanted = ids});
  ASSERT_EQ(before.embeddings().value_size(), 2 * kBlock);
  EXPECT_EQ(before.embeddings().value(kBlock - 1), 64) << "of the clock before";
  EXPECT_EQ(before.embeddings().value(2 * kBlock - 1), 64);
  send(2, {});
  send(2, {ids[1]});
  EXPECT_THAT(row(ids[1]), ElementsAre(128, 128, 128, 128, 128, 128, 128, 64 + 1.0f / 64));
}

}  // namespace
}  // namespace millrace
