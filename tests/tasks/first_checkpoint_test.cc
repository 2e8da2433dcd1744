#include "tasks/first_checkpoint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/state_codec.h"
#include "tests/processors/parameters_fixture.h"
#include "tests/processors/server_fixture.h"
#include "topics/frame.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

constexpr uint64_t kKeys = 8;

// Shard 1 of 2, from a snapshot of two shards of other ranges.
class FirstCheckpointTest : public testing::Test {
 protected:
  static ServerOptions Options(ShardId shard) {
    ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
    options.shard = shard;
    options.shards = 2;
    options.range = RangeOfShard(shard, 2, kKeys);
    options.optimizer.kind = OptimizerOptions::Kind::kAdam;
    return options;
  }
  void AddWeights() {
    first_.AddWeights(0, std::vector<float>(5));
    first_.AddWeights(5, std::vector<float>(kKeys - 5));
  }
  void AddSlots() {
    for (size_t slot = 0; slot < first_.slots(); ++slot) {
      first_.AddSlot(slot, 0, std::vector<float>(kKeys));
    }
  }
  void AddState(ShardId shard) {
    first_.AddState(shard, SnapshotStateFrom(ServerProcessor(Options(shard), nullptr)));
  }
  void ExpectUnfinished() { EXPECT_DEATH((void)first_.Finish(), "broken invariant"); }

  FirstCheckpoint first_{Options(1), SnapshotStart::kSameStream};
};

TEST_F(FirstCheckpointTest, IsMadeOfAllWeightsSlotsAndStatesOnce) {
  AddWeights();
  AddSlots();
  AddState(0);
  AddState(1);
  const StatusOr<Checkpoint> checkpoint = first_.Finish();
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectUnfinished();
}

TEST_F(FirstCheckpointTest, WithoutAnyOptimizerValuesTheyBeginAtZero) {
  AddWeights();
  AddState(0);
  EXPECT_TRUE(first_.Finish().ok());
}

// Whoever else takes shard 0's state over has tested no rows.
TEST_F(FirstCheckpointTest, TheFiguresWindowStaysWithShard0AndItsStream) {
  ServerOptions of_shard_0 = Options(0);
  of_shard_0.fewest_window_rows = 1;
  TestServer server(of_shard_0);
  server.Send(WithProgressive(Update(0, 0, std::vector<float>(4), of_shard_0.range), 3));
  const ShardState state = SnapshotStateFrom(server.processor());
  ASSERT_EQ(state.window().rows(), 3u);
  for (ShardId shard = 0; shard < 2; ++shard) {
    for (const SnapshotStart start : {SnapshotStart::kSameStream, SnapshotStart::kNewStream}) {
      FirstCheckpoint first(Options(shard), start);
      first.AddWeights(0, std::vector<float>(kKeys));
      first.AddState(0, state);
      const StatusOr<Checkpoint> checkpoint = first.Finish();
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      const std::string& frame = checkpoint->entries.back().value;
      const StatusOr<ShardState> saved = DecodeState(ParseFrame(frame)->body);
      ASSERT_TRUE(saved.ok()) << saved.status();
      const bool keeps = shard == 0 && start == SnapshotStart::kSameStream;
      EXPECT_EQ(saved->window().rows(), keeps ? 3u : 0u);
      EXPECT_EQ(saved->window_end(), keeps ? 3u : 0u);
    }
  }
}

TEST_F(FirstCheckpointTest, ANewStreamBeginsWithTheFirstWorkersAndNoChangeOfThem) {
  ShardState state = SnapshotStateFrom(ServerProcessor(Options(0), nullptr));
  state.set_resize(2);
  state.set_workers(3);
  state.set_resize_ordered(2);
  state.set_workers_ordered(3);
  state.mutable_moments()->set_resize(2);
  state.mutable_moments()->set_workers(3);
  ServerOptions options = Options(0);
  const uint32_t first_workers = options.workers;
  options.first_workers = first_workers;
  options.workers = first_workers + 1;
  FirstCheckpoint first(options, SnapshotStart::kNewStream);
  first.AddWeights(0, std::vector<float>(kKeys));
  first.AddState(0, state);
  const StatusOr<Checkpoint> checkpoint = first.Finish();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const StatusOr<ShardState> saved =
      DecodeState(ParseFrame(checkpoint->entries.back().value)->body);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->members_size(), static_cast<int>(first_workers + 1));
  for (const ShardState::Member& member : saved->members()) {
    EXPECT_EQ(member.left(), member.worker() == first_workers);
  }
  EXPECT_EQ(saved->resize() + saved->workers() + saved->resize_ordered(), 0u);
  EXPECT_EQ(saved->moments().resize() + saved->moments().workers(), 0u);
}

TEST_F(FirstCheckpointTest, OfOneOfSeveralGroupsOfServersIsTheBeginningOfANewStreamOnly) {
  ServerOptions options = Options(0);
  options.groups = 2;
  options.members = {WorkerId(0)};
  options.sources = {{.group = 1}};
  const ShardState state = SnapshotStateFrom(ServerProcessor(options, nullptr));
  ASSERT_TRUE(state.has_sync());
  for (const SnapshotStart start : {SnapshotStart::kNewStream, SnapshotStart::kSameStream}) {
    FirstCheckpoint first(Options(0), start);
    first.AddWeights(0, std::vector<float>(kKeys));
    first.AddState(0, state);
    const StatusOr<Checkpoint> checkpoint = first.Finish();
    if (start == SnapshotStart::kNewStream) {
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(checkpoint.status()))
          << "rows of the other group's workers are not in it";
    }
  }
}

// ---- named parameters ----

// Three parameters of four numbers, by two shards; the border is in the second.
std::vector<PlainParameters::Parameter> ThreeParameters() {
  return {{.size = 4, .handler = "adam"},
          {.size = 4, .handler = "adam"},
          {.size = 4, .handler = "momentum"}};
}

// What a shard of a job of so many begins with.
ShardState StartOfParameters(ParameterJob& before, ShardId shard, uint32_t shards,
                             SnapshotStart start) {
  ServerOptions options = ParameterJob(ThreeParameters(), shards, 1, kSequential)
                              .server(static_cast<uint32_t>(shard))
                              .options();
  FirstCheckpoint first(options, start);
  for (uint32_t of = 0; of < before.shards(); ++of) {
    first.AddState(ShardId(of), SnapshotStateFrom(before.server(of).processor()));
  }
  first.AddWeights(0, before.values());
  const StatusOr<Checkpoint> checkpoint = first.Finish();
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *DecodeState(ParseFrame(checkpoint->entries.back().value)->body);
}

TEST_F(FirstCheckpointTest, OtherShardsGoOnWithTheParametersThatHaveValues) {
  ParameterJob before(ThreeParameters(), 2, 1, kSequential);
  const std::vector<float> ones(4, 1.0f);
  before.Send(0, 0, {.put = {{0, ones}, {1, ones}}, .part = {{0, ones}, {1, ones}}});
  before.Send(0, 1, {.part = {{1, ones}}});
  for (const SnapshotStart start : {SnapshotStart::kSameStream, SnapshotStart::kNewStream}) {
    const ShardState one = StartOfParameters(before, 0, 1, start);
    ASSERT_EQ(one.parameters_size(), 2) << "nobody has put the third";
    EXPECT_EQ(one.parameters(0).updates(), 1u);
    EXPECT_EQ(one.parameters(1).updates(), 2u);
    EXPECT_EQ(one.parameters(1).values_from(), 0u) << "it begins with them";
    const ShardState last_of_three = StartOfParameters(before, 2, 3, start);
    EXPECT_TRUE(last_of_three.parameters().empty());
    const ShardState middle = StartOfParameters(before, 1, 3, start);
    ASSERT_EQ(middle.parameters_size(), 1) << "it has no part of another that was put";
    EXPECT_EQ(middle.parameters(0).parameter(), 1u);
    EXPECT_EQ(middle.parameters(0).updates(), 2u);
  }
}

// As after an update of which one shard has dropped its part, since a number in it was a NaN.
TEST_F(FirstCheckpointTest, WhatWasPutInOneShardOnlyIsToBePutOnceMore) {
  ParameterJob before(ThreeParameters(), 2, 1, kSequential);
  const std::vector<float> ones(4, 1.0f);
  before.server(0).Send(before.PartOfUpdate(0, 0, 0, {.put = {{0, ones}, {1, ones}}}));
  before.server(1).Send(before.PartOfUpdate(1, 0, 0, {}));
  const ShardState one = StartOfParameters(before, 0, 1, SnapshotStart::kSameStream);
  ASSERT_EQ(one.parameters_size(), 1);
  EXPECT_EQ(one.parameters(0).parameter(), 0u) << "all of which the first shard has";
}

// Whichever rows they have.
TEST_F(FirstCheckpointTest, AllShardsGoOnWithTheStepsOfATable) {
  const std::vector<PlainParameters::Parameter> tables = {
      {.size = 2, .handler = "adam", .is_table = true},
      {.size = 3, .handler = "adam", .is_table = true}};
  ParameterJob before(tables, 2, 1, kSequential);
  before.Send(0, 0, {.rows = {{1, {{5, {1, 2, 3}}}}}});
  before.Send(0, 1, {.rows = {{1, {{5, {1, 2, 3}}}}}});
  for (uint32_t shard = 0; shard < 3; ++shard) {
    FirstCheckpoint first(ParameterJob(tables, 3, 1, kSequential).server(shard).options(),
                          SnapshotStart::kSameStream);
    for (uint32_t of = 0; of < 2; ++of) {
      first.AddState(ShardId(of), SnapshotStateFrom(before.server(of).processor()));
    }
    const StatusOr<Checkpoint> checkpoint = first.Finish();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const ShardState state = *DecodeState(ParseFrame(checkpoint->entries.back().value)->body);
    ASSERT_EQ(state.parameters_size(), 1) << "no step has named the other";
    EXPECT_EQ(state.parameters(0).parameter(), 1u);
    EXPECT_EQ(state.parameters(0).updates(), 2u);
  }
}

// Shards that have made other steps, since these named parameters of others.
TEST_F(FirstCheckpointTest, AShardMayHaveMadeMoreStepsThanTheFirst) {
  ParameterJob before(ThreeParameters(), 2, 1, kSequential);
  const std::vector<float> ones(4, 1.0f);
  before.Send(0, 0, {.put = {{2, ones}}, .part = {{2, ones}}});
  before.Send(0, 1, {.part = {{2, ones}}});
  const ShardState one = StartOfParameters(before, 0, 1, SnapshotStart::kSameStream);
  EXPECT_EQ(one.steps(), 2u);
  ASSERT_EQ(one.parameters_size(), 1);
  EXPECT_EQ(one.parameters(0).updates(), 2u);
}

// An update that is dropped in one shard's log only is a step less there.
TEST_F(FirstCheckpointTest, ARowHasMissedWhatItsOwnShardHasMissed) {
  ServerOptions options = Options(0);
  options.shards = 1;
  options.range = {0, kKeys};
  options.embeddings = EmbeddingTableOptions();
  FirstCheckpoint first(options, SnapshotStart::kSameStream);
  for (ShardId shard = 0; shard < 2; ++shard) {
    ShardState state = SnapshotStateFrom(ServerProcessor(options, nullptr));
    state.set_shrinkage(shard == 0 ? 0.5 : 0.75);
    first.AddState(shard, state);
  }
  const std::vector<float> floats(1 + first.embeddings()->slot_floats());
  first.AddRow(0, 1, {.updates = 1, .shrinkage = 0.125}, floats);
  first.AddRow(1, 2, {.updates = 1, .shrinkage = 0.125}, floats);
  first.AddWeights(0, std::vector<float>(kKeys));
  const StatusOr<Checkpoint> checkpoint = first.Finish();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<double> missed;
  checkpoint->rows.Encode(0, [&](std::string_view, std::string_view value) {
    EmbeddingRow row;
    EXPECT_TRUE(row.ParseFromString(std::string(ParseFrame(value)->body)));
    missed.push_back(0.75 - row.shrinkage());
    return true;
  });
  EXPECT_EQ(missed, (std::vector<double>{0.5 - 0.125, 0.75 - 0.125}));
}

TEST_F(FirstCheckpointTest, IsNotMadeOfSomeOfTheWeights) {
  first_.AddWeights(0, std::vector<float>(5));
  AddState(0);
  ExpectUnfinished();
}

TEST_F(FirstCheckpointTest, IsNotMadeOfWeightsThatWereAddedTwice) {
  AddWeights();
  first_.AddWeights(kKeys - 1, std::vector<float>(1));
  AddState(0);
  ExpectUnfinished();
}

TEST_F(FirstCheckpointTest, IsNotMadeOfOneSlotOfTwo) {
  AddWeights();
  ASSERT_EQ(first_.slots(), 2u);
  first_.AddSlot(0, 0, std::vector<float>(kKeys));
  AddState(0);
  ExpectUnfinished();
}

TEST_F(FirstCheckpointTest, IsNotMadeWithoutAShardsState) {
  AddWeights();
  ExpectUnfinished();
  AddState(1);
  ExpectUnfinished();
  EXPECT_DEATH(AddState(1), "broken invariant");
}

}  // namespace
}  // namespace millrace
