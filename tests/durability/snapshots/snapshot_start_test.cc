// What the shards of a new job begin with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/big_endian.h"
#include "durability/snapshots/snapshot_reader.h"
#include "tests/durability/snapshots/snapshot_fixture.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using snapshot_tests::HeadOf;
using snapshot_tests::kIds;
using snapshot_tests::kKeys;
using snapshot_tests::NumberOf;
using snapshot_tests::Put;
using snapshot_tests::RowsOf;
using snapshot_tests::Shard;
using snapshot_tests::ShardOf;
using snapshot_tests::WriteAll;

void ExpectSame(const Shard& expected, const ServerProcessor& found, const OrderedByteMap& store) {
  const ParameterShard& dense = expected.processor.shard();
  EXPECT_TRUE(std::ranges::equal(found.shard().weights(), dense.weights()));
  EXPECT_TRUE(std::ranges::equal(found.shard().slots(), dense.slots()));
  EXPECT_EQ(RowsOf(store), RowsOf(expected.store));
  EXPECT_EQ(found.steps(), 9u);
}

class Resharded : public ::testing::TestWithParam<std::tuple<uint32_t, uint32_t>> {};

TEST_P(Resharded, EveryShardBeginsWithItsWeightsStateAndRows) {
  const auto [from, to] = GetParam();
  const TemporaryFolder folder;
  WriteAll(folder.path(), from);
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  size_t rows = 0;
  for (ShardId shard = 0; shard < to; ++shard) {
    const ServerOptions options = ShardOf(shard, to);
    StatusOr<Checkpoint> first =
        ReadFirstCheckpoint(folder.path(), *manifest, options, SnapshotStart::kSameStream);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->position, 0);
    MemoryByteMap store;
    Put(*first, store);
    ShardTask task(options, store);
    const Status loaded = task.Load();
    ASSERT_TRUE(loaded.ok()) << loaded;
    ExpectSame(Shard(options), task.processor(), store);
    EXPECT_EQ(task.processor().clocks().clock(2), 7u);
    EXPECT_TRUE(task.processor().clocks().left(0));
    rows += RowsOf(store).size();
  }
  EXPECT_EQ(rows, (kIds + 2) / 3);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, Resharded,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(1, 2, 4, 12)));

TEST(SnapshotStart, OfANewStreamBeginWithTheModelAtItsFirstRow) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ServerOptions options = ShardOf(0, 1);
  options.workers = 7;  // as many as one likes
  StatusOr<Checkpoint> first =
      ReadFirstCheckpoint(folder.path(), *manifest, options, SnapshotStart::kNewStream);
  ASSERT_TRUE(first.ok()) << first.status();
  MemoryByteMap store;
  Put(*first, store);
  ShardTask task(options, store);
  ASSERT_TRUE(task.Load().ok());
  for (WorkerId worker = 0; worker < options.workers; ++worker) {
    EXPECT_EQ(task.processor().clocks().clock(worker), 0u);
    EXPECT_FALSE(task.processor().clocks().left(worker));
    EXPECT_EQ(task.processor().rows_end(worker), 0u);
  }
  EXPECT_EQ(task.processor().shard().weights()[10], NumberOf(10, 1));
  EXPECT_EQ(RowsOf(store).size(), (kIds + 2) / 3);
}

// Changes the state of a shard that is not written yet.
void ChangeState(const Shard& shard, const std::function<void(ShardState& state)>& change) {
  ShardState state;
  shard.processor.SaveState(state);
  change(state);
  const Status status = const_cast<ServerProcessor&>(shard.processor).LoadState(state);
  ASSERT_TRUE(status.ok()) << status;
}

// The state with which a shard of a single-shard job begins from a snapshot of one shard.
ShardState StartOf(const std::string& folder, const ServerOptions& options) {
  ShardState state;
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  StatusOr<Checkpoint> first =
      ReadFirstCheckpoint(folder, *manifest, options, SnapshotStart::kSameStream);
  EXPECT_TRUE(first.ok()) << first.status();
  MemoryByteMap store;
  Put(*first, store);
  ShardTask task(options, store);
  EXPECT_TRUE(task.Load().ok());
  task.processor().SaveState(state);
  return state;
}

// Updates that were held for the cut were computed on weights of before: the new job's workers
// compute them again, and taken twice they would count twice.
TEST(SnapshotStart, HaveNothingOfMessagesUnderWay) {
  const TemporaryFolder folder;
  const Shard shard(ShardOf(0, 1));
  ChangeState(shard, [](ShardState& state) {
    ShardState::Member& member = *state.mutable_members(1);
    *member.add_pending() =
        Update(1, Clock(member.clock()), std::vector<float>(kKeys, 1), {0, kKeys}).update();
    member.add_wanted()->add_id(3);
    member.set_has_cut(true);
    member.set_cut(member.clock());
    ShardState::PartialMessage& partial = *state.add_partial();
    partial.set_worker(2);
    partial.set_message_id(1);
    partial.set_count(3);
    partial.add_chunk("the first of three");
    state.set_snapshot(4);
    state.set_snapshot_open(true);
    state.set_at_cut(true);
  });
  ASSERT_FALSE(shard.processor.WaitedFor().empty());
  ASSERT_TRUE(shard.processor.at_cut());
  ASSERT_TRUE(shard.WritePart(folder.path()).ok());
  ASSERT_TRUE(WriteManifest(folder.path(), HeadOf()).ok());
  ShardState written;
  std::ifstream file(SnapshotFile(folder.path(), "state", 0, "pb"), std::ios::binary);
  ASSERT_TRUE(written.ParseFromIstream(&file));
  EXPECT_FALSE(written.at_cut());
  EXPECT_FALSE(written.snapshot_open());
  const ShardState state = StartOf(folder.path(), ShardOf(0, 1));
  for (const ShardState::Member& member : state.members()) {
    EXPECT_TRUE(member.pending().empty()) << member.worker();
    EXPECT_EQ(member.wanted_size(), 0) << member.worker();
    EXPECT_FALSE(member.has_cut()) << member.worker();
    EXPECT_EQ(member.cut(), 0u) << member.worker();
  }
  EXPECT_EQ(state.partial_size(), 0);
  EXPECT_EQ(state.snapshot(), 0u);
  EXPECT_FALSE(state.snapshot_open());
  EXPECT_FALSE(state.at_cut());
}

TEST(SnapshotStart, HaveThePenaltiesThatRowsHaveMissed) {
  const TemporaryFolder folder;
  const Shard shard(ShardOf(0, 1));
  ChangeState(shard, [](ShardState& state) { state.set_shrinkage(2.5); });
  Checkpoint named;
  const EmbeddingTable& table = *shard.processor.embeddings();
  named.rows = FrozenRows(3, table.width(), table.slot_floats());
  const std::vector<float> floats(table.width() + table.slot_floats(), 1.0f);
  named.rows.Add(3, 0, {.updates = 2, .updated_ms = 1500, .shrinkage = 0.75}, floats);
  Put(named, const_cast<MemoryByteMap&>(shard.store));
  ASSERT_TRUE(shard.WritePart(folder.path()).ok());
  ASSERT_TRUE(WriteManifest(folder.path(), HeadOf()).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "embedding-shrinkage-0.npy"));
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->parts(0).shrinkage(), 2.5);
  StatusOr<Checkpoint> first =
      ReadFirstCheckpoint(folder.path(), *manifest, ShardOf(0, 1), SnapshotStart::kSameStream);
  ASSERT_TRUE(first.ok()) << first.status();
  MemoryByteMap store;
  Put(*first, store);
  EXPECT_EQ(RowsOf(store), RowsOf(shard.store));
  EXPECT_EQ(StartOf(folder.path(), ShardOf(0, 1)).shrinkage(), 2.5);
}

TEST(SnapshotStart, LeaveOutRowsThatHaveExpired) {
  ServerOptions options = ShardOf(0, 1);
  options.embeddings->expire_after_ms = 980;  // at the step's time 2000: what is of 1020 or before
  const TemporaryFolder folder;
  const Shard shard(options);
  ASSERT_TRUE(shard.WritePart(folder.path()).ok());
  ASSERT_TRUE(WriteManifest(folder.path(), HeadOf()).ok());
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  StatusOr<Checkpoint> first =
      ReadFirstCheckpoint(folder.path(), *manifest, options, SnapshotStart::kSameStream);
  ASSERT_TRUE(first.ok()) << first.status();
  MemoryByteMap store;
  Put(*first, store);
  std::vector<EmbeddingId> ids;
  for (const auto& [key, value] : RowsOf(store)) {
    ids.push_back(*DecodeBigEndian64(std::string_view(key).substr(key.size() - 8)));
  }
  EXPECT_THAT(ids, ::testing::ElementsAre(21, 24, 27, 30, 33, 36, 39));
  EXPECT_EQ(manifest->parts(0).rows(), ids.size());
}

// Each shard's log has times of its own; rows that move to another shard must not come back to
// life there, nor expire before their time.
TEST(SnapshotStart, BeginWithTheLatestTimesOfAllShards) {
  for (const ShardId latest : std::vector<ShardId>{0, 1, 2}) {
    const TemporaryFolder folder;
    for (ShardId shard = 0; shard < 3; ++shard) {
      const Shard part(ShardOf(shard, 3));
      ChangeState(part, [&](ShardState& state) {
        state.set_seen_ms(shard == latest ? 9000 : 7000);
        state.set_step_ms(shard == latest ? 8000 : 6000);
      });
      ASSERT_TRUE(part.WritePart(folder.path()).ok());
    }
    ASSERT_TRUE(WriteManifest(folder.path(), HeadOf()).ok());
    for (ShardId shard = 0; shard < 2; ++shard) {
      const ShardState state = StartOf(folder.path(), ShardOf(shard, 2));
      EXPECT_EQ(state.seen_ms(), 9000) << "of shard " << latest;
      EXPECT_EQ(state.step_ms(), 8000) << "of shard " << latest;
      EXPECT_EQ(state.previous_round().step_ms(), 8000) << "of shard " << latest;
    }
  }
}

}  // namespace
}  // namespace millrace
