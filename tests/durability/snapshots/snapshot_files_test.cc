#include "durability/snapshots/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "durability/snapshots/snapshot_reader.h"
#include "durability/snapshots/snapshot_writer.h"
#include "stores/frozen_rows.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tests/processors/server_fixture.h"
#include "tests/stores/temporary_folder.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kKeys = 11;
constexpr EmbeddingId kIds = 40;
constexpr size_t kWidth = 2;

ServerOptions ShardOf(ShardId shard, uint32_t shards) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());  // clocks may differ
  options.shard = shard;
  options.shards = shards;
  options.range = RangeOfShard(shard, shards, kKeys);
  options.optimizer.kind = OptimizerOptions::Kind::kAdam;
  options.embeddings.emplace();
  options.embeddings->table = 3;
  options.embeddings->seed = 9;
  options.embeddings->initial_limit.assign(kWidth, 0.5f);
  options.embeddings->admit_after = 2;
  return options;
}

// Anything that is the same for the key or row whatever shard it is of.
float NumberOf(uint64_t thing, uint64_t part) {
  return static_cast<float>(std::mt19937(static_cast<uint32_t>(31 * thing + part))() % 1000) / 8;
}

void Put(const Checkpoint& checkpoint, OrderedByteMap& store) {
  WriteBatch batch;
  checkpoint.VisitRecords(0, [&batch](std::string_view key, std::string_view value) {
    batch.Put(std::string(key), std::string(value));
    return true;
  });
  ASSERT_TRUE(store.Write(batch).ok());
}

// A shard in the middle of a job: weights, state, and those rows of its that somebody has named.
struct Shard {
  explicit Shard(ServerOptions with)
      : options(std::move(with)),
        task(std::make_unique<ShardTask>(options, store)),
        processor(task->processor()) {
    const Status status = LoadMembers();
    EXPECT_TRUE(status.ok()) << status;
    auto& dense = const_cast<ParameterShard&>(processor.shard());
    const size_t keys = dense.range().size();
    for (size_t i = 0; i < keys; ++i) {
      const uint64_t key = dense.range().begin + i;
      dense.mutable_weights()[i] = NumberOf(key, 1);
      for (size_t slot = 0; slot * keys < dense.slots().size(); ++slot) {
        dense.mutable_slots()[slot * keys + i] = NumberOf(key, 2 + slot);
      }
    }
    const EmbeddingTable& table = *processor.embeddings();
    Checkpoint named;
    named.rows = FrozenRows(options.embeddings->table, table.width(), table.slot_floats());
    for (EmbeddingId id = 0; id < kIds; id += 3) {
      if (ShardOfEmbedding(id, options.shards) != options.shard) continue;
      std::vector<float> floats(table.width() + table.slot_floats());
      for (size_t i = 0; i < floats.size(); ++i) floats[i] = NumberOf(id, 100 + i);
      const auto updates = static_cast<uint32_t>(1 + id % 4);  // some are not admitted
      named.rows.Add(id, 0, {updates, static_cast<int64_t>(1000 + id)},
                     updates >= 2 ? std::span<const float>(floats) : std::span<const float>());
    }
    Put(named, store);
  }

  // Worker 0 has left, the others stand at the cut.
  Status LoadMembers() const {
    ShardState state;
    processor.SaveState(state);
    for (ShardState::Member& member : *state.mutable_members()) {
      member.set_clock(5 + member.worker());
      member.set_left(member.worker() == 0);
      member.mutable_rows()->set_end(70 + member.worker());
    }
    state.set_steps(9);
    state.set_seen_ms(2000 + static_cast<int64_t>(options.shard));
    state.set_step_ms(2000);
    return const_cast<ServerProcessor&>(processor).LoadState(state);
  }

  Status WritePart(const std::string& folder, uint64_t snapshot = 4) const {
    SnapshotPart head;
    head.set_job("job");
    head.set_epoch(1);
    head.set_snapshot(snapshot);
    return WriteSnapshotPart(folder, head, options, processor, store);
  }

  ServerOptions options;
  MemoryByteMap store;
  std::unique_ptr<ShardTask> task;
  const ServerProcessor& processor;
};

SnapshotManifest HeadOf(uint64_t snapshot = 4) {
  SnapshotManifest head;
  head.set_job("job");
  head.set_epoch(1);
  head.set_snapshot(snapshot);
  head.mutable_training()->set_model(Training::FACTORIZATION_MACHINE);
  return head;
}

void WriteAll(const std::string& folder, uint32_t shards) {
  for (ShardId shard = 0; shard < shards; ++shard) {
    const Status status = Shard(ShardOf(shard, shards)).WritePart(folder);
    ASSERT_TRUE(status.ok()) << status;
  }
  const StatusOr<bool> whole = WriteManifest(folder, HeadOf());
  ASSERT_TRUE(whole.ok() && *whole) << whole.status();
}

// What a store holds of embedding rows.
std::vector<std::pair<std::string, std::string>> RowsOf(const OrderedByteMap& store) {
  std::vector<std::pair<std::string, std::string>> rows;
  const Status status = store.Scan("", "", [&rows](std::string_view key, std::string_view value) {
    if (IsEmbeddingRowKey(key)) rows.emplace_back(key, value);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

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

TEST(SnapshotFiles, OfANewStreamBeginWithTheModelAtItsFirstRow) {
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
TEST(SnapshotFiles, HaveNothingOfMessagesUnderWay) {
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

TEST(SnapshotFiles, HaveThePenaltiesThatRowsHaveMissed) {
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

TEST(SnapshotFiles, LeaveOutRowsThatHaveExpired) {
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
TEST(SnapshotFiles, BeginWithTheLatestTimesOfAllShards) {
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

TEST(SnapshotFiles, AreNoSnapshotUntilAllPartsAreThere) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Shard(ShardOf(0, 2)).WritePart(folder.path()).ok());
  const StatusOr<bool> whole = WriteManifest(folder.path(), HeadOf());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(*whole);
  const Status status = CheckSnapshot(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder.path()));
}

TEST(SnapshotFiles, OfTwoSnapshotsMakeNone) {
  const TemporaryFolder other;
  ASSERT_TRUE(Shard(ShardOf(0, 2)).WritePart(other.path(), 4).ok());
  ASSERT_TRUE(Shard(ShardOf(1, 2)).WritePart(other.path(), 5).ok());
  EXPECT_TRUE(absl::IsDataLoss(WriteManifest(other.path(), HeadOf()).status()));
}

// A shard that does not stand where the others of WriteAll do.
std::unique_ptr<Shard> ShardWith(ShardId shard, void (*change)(ShardState::Member& member)) {
  auto other = std::make_unique<Shard>(ShardOf(shard, 2));
  ShardState state;
  other->processor.SaveState(state);
  change(*state.mutable_members(1));
  EXPECT_TRUE(const_cast<ServerProcessor&>(other->processor).LoadState(state).ok());
  return other;
}

TEST(SnapshotFiles, OfDifferentClocksAreNotOneCut) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Shard(ShardOf(0, 2)).WritePart(folder.path()).ok());
  const std::unique_ptr<Shard> late =
      ShardWith(1, [](ShardState::Member& member) { member.set_clock(member.clock() + 1); });
  ASSERT_TRUE(late->WritePart(folder.path()).ok());
  const Status status = WriteManifest(folder.path(), HeadOf()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 1"));
}

TEST(SnapshotFiles, AreOneCutThoughAWorkerHasLeftSomeShardsSooner) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Shard(ShardOf(0, 2)).WritePart(folder.path()).ok());
  const std::unique_ptr<Shard> left =
      ShardWith(1, [](ShardState::Member& member) { member.set_left(true); });
  ASSERT_TRUE(left->WritePart(folder.path()).ok());
  const StatusOr<bool> whole = WriteManifest(folder.path(), HeadOf());
  EXPECT_TRUE(whole.ok() && *whole) << whole.status();
}

std::vector<std::filesystem::path> FilesOf(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // A part's JSON has served when the manifest is there.
    if (!entry.path().filename().string().starts_with("part-")) files.push_back(entry.path());
  }
  return files;
}

// Each file in turn.
void ExpectErrorsThatNameTheFile(void (*damage)(const std::filesystem::path&)) {
  const TemporaryFolder whole;
  WriteAll(whole.path(), 2);
  EXPECT_EQ(FilesOf(whole.path()).size(), 1u + 2 * 8);
  for (const std::filesystem::path& file : FilesOf(whole.path())) {
    const TemporaryFolder folder;
    std::filesystem::copy(whole.path(), folder.path());
    damage(folder / file.filename());
    const Status status = CheckSnapshot(folder.path()).status();
    EXPECT_FALSE(status.ok()) << file;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder / file.filename()));
  }
}

TEST(SnapshotFiles, ThatAreMissingAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile(
      [](const std::filesystem::path& file) { std::filesystem::remove(file); });
}

TEST(SnapshotFiles, ThatAreCutShortAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile([](const std::filesystem::path& file) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  });
}

TEST(SnapshotFiles, WithOneOtherByteAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile([](const std::filesystem::path& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(1);
    stream.put('\x07');
  });
}

// Still JSON, and still what a manifest may say.
TEST(SnapshotFiles, WithAnyOtherNumberInTheManifestAreAnErrorThatNamesIt) {
  const TemporaryFolder whole;
  WriteAll(whole.path(), 2);
  std::ifstream file(whole / "manifest.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  int changed = 0;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    // The last digit of a number.
    if (!is_digit(text[i]) || is_digit(text[i + 1]) || text[i + 1] == '.') continue;
    std::string other = text;
    other[i] = text[i] == '1' ? '2' : '1';
    const TemporaryFolder folder;
    std::filesystem::copy(whole.path(), folder.path());
    std::ofstream(folder / "manifest.json") << other;
    const Status status = CheckSnapshot(folder.path()).status();
    ASSERT_FALSE(status.ok()) << text.substr(text.rfind('\n', i), 60);
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder.path()));
    ++changed;
  }
  EXPECT_GT(changed, 50);
  // How it is laid out says nothing.
  std::string laid_out = text;
  laid_out.insert(1, "\n\n  ");
  std::ofstream(whole / "manifest.json") << laid_out;
  EXPECT_TRUE(CheckSnapshot(whole.path()).ok());
}

TEST(SnapshotFiles, ThatCannotBeWrittenAreErrorsAndNoSnapshot) {
  const TemporaryFolder folder;
  for (const char* name :
       {"weights-0.npy", "embedding-values-0.npy", "state-0.pb", "part-0.json"}) {
    const std::string in_the_way = folder / (std::string(name) + ".tmp");
    std::filesystem::create_directory(in_the_way);
    const Status status = Shard(ShardOf(0, 1)).WritePart(folder.path());
    std::filesystem::remove(in_the_way);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder / name));
    const StatusOr<bool> whole = WriteManifest(folder.path(), HeadOf());
    EXPECT_TRUE(whole.ok() && !*whole) << whole.status();
  }
}

TEST(SnapshotFiles, ThatWouldBeTooLargeAreErrorsThatNameThemAndWhatToDo) {
  const TemporaryFolder folder;
  const std::string state_file = folder / "state-0.pb";
  ShardState state;
  state.set_steps(9);
  const size_t bytes = state.ByteSizeLong();
  EXPECT_TRUE(WriteState(state_file, state, bytes).ok());
  const std::string part_file = folder / "part-0.json";
  for (const Status& refused :
       {WriteState(state_file, state, bytes - 1), WriteJson(part_file, SnapshotPart(), 10)}) {
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("start a new job with fewer"));
  }
  EXPECT_THAT(std::string(WriteState(state_file, state, 0).message()), HasSubstr(state_file));
  EXPECT_THAT(std::string(WriteJson(part_file, SnapshotPart(), 10).message()),
              HasSubstr(part_file));
  EXPECT_FALSE(std::filesystem::exists(part_file));
}

TEST(SnapshotFiles, AndTheirFolderAreForTheirOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  const Status made = MakeSnapshotDir(folder / "snapshots");
  const Status written = Shard(ShardOf(0, 1)).WritePart(folder / "snapshots/job-4");
  umask(before);
  ASSERT_TRUE(made.ok() && written.ok()) << made << written;
  using std::filesystem::perms;
  const auto permissions = [&folder](const std::string& name) {
    return std::filesystem::status(folder / name).permissions();
  };
  EXPECT_EQ(permissions("snapshots"), perms::owner_all);
  EXPECT_EQ(permissions("snapshots/job-4"), perms::owner_all);
  EXPECT_EQ(permissions("snapshots/job-4/weights-0.npy"), perms(0600));
  EXPECT_EQ(permissions("snapshots/job-4/state-0.pb"), perms(0600));
}

// The folder may be another one than the job was started from.
TEST(SnapshotFiles, OfAModelWithOtherKeysAreAnErrorThatNamesThem) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  for (const uint64_t keys : {kKeys - 1, kKeys + 1}) {
    ServerOptions options = ShardOf(2, 3);
    options.range = RangeOfShard(2, 3, keys);
    const Status status =
        ReadFirstCheckpoint(folder.path(), *manifest, options, SnapshotStart::kSameStream).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "manifest.json"));
  }
}

TEST(SnapshotFiles, AreReadByAManifestThatWasChecked) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  StatusOr<SnapshotManifest> manifest = CheckSnapshot(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->mutable_parts()->RemoveLast();
  EXPECT_DEATH((void)ReadFirstCheckpoint(folder.path(), *manifest, ShardOf(0, 1),
                                         SnapshotStart::kSameStream),
               "CheckParts");
}

// Older versions had one column of text at most, and wrote "text": "" where a job had none.
TEST(SnapshotFiles, OfAnOlderVersionHaveNoColumnOfTextWithoutAName) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  const std::string path = folder.path() + "/manifest.json";
  for (const std::string name : {"", "note"}) {
    StatusOr<SnapshotManifest> manifest = ReadManifest(folder.path());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    FeatureSpec& spec = *manifest->mutable_features()->mutable_spec();
    spec.clear_text();
    spec.add_text(name);
    ASSERT_TRUE(SealSnapshot(folder.path(), *manifest).ok());
    // A list of one has the checksum of what it is a list of.
    std::ifstream file(path);
    const std::string text =
        std::regex_replace(std::string(std::istreambuf_iterator<char>(file), {}),
                           std::regex(R"re("text":\s*\[\s*("[a-z]*")\s*\])re"), R"("text": $1)");
    ASSERT_THAT(text, HasSubstr("\"text\": \"" + name + "\""));
    std::ofstream(path) << text;
    manifest = ReadManifest(folder.path());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const auto& read = manifest->features().spec().text();
    EXPECT_EQ(std::vector<std::string>(read.begin(), read.end()),
              name.empty() ? std::vector<std::string>() : std::vector{name});
  }
}

// Whoever writes a manifest can give it a checksum, too.
void ExpectRefused(void (*change)(SnapshotManifest& manifest), const std::string& why) {
  const TemporaryFolder folder;
  WriteAll(folder.path(), 2);
  StatusOr<SnapshotManifest> manifest = ReadManifest(folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  change(*manifest);
  ASSERT_TRUE(SealSnapshot(folder.path(), *manifest).ok());
  const Status status = CheckSnapshot(folder.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(SnapshotFiles, WithAHugeEndAreAnErrorAndNoAbort) {
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        manifest.mutable_parts(1)->set_end(uint64_t{1} << 62);
        manifest.set_parameters(uint64_t{1} << 62);
      },
      "more keys or rows than its files can hold");
}

TEST(SnapshotFiles, WithMoreRowsThanTheirFilesHaveRoomForAreRefused) {
  ExpectRefused([](SnapshotManifest& manifest) { manifest.mutable_parts(0)->set_rows(1 << 20); },
                "more keys or rows than its files can hold");
}

TEST(SnapshotFiles, ThatAreOpenedAreThoseThatAreListed) {
  const std::string other = "lists files that no snapshot has";
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        manifest.mutable_parts(0)->mutable_files(0)->set_name("../weights-0.npy");
      },
      other);
  ExpectRefused(
      [](SnapshotManifest& manifest) { manifest.mutable_parts(0)->mutable_files()->RemoveLast(); },
      other);
  ExpectRefused(
      [](SnapshotManifest& manifest) {
        const SnapshotPart::File twice = manifest.parts(0).files(0);
        *manifest.mutable_parts(0)->add_files() = twice;
      },
      other);
}

TEST(SnapshotFiles, OfAnotherJobsShapeAreRefused) {
  SnapshotManifest manifest = HeadOf();
  manifest.mutable_features()->mutable_spec()->add_numeric("x");
  manifest.add_workers();
  const auto fits = [&manifest](const Training& training, const std::string& column,
                                uint32_t workers, SnapshotStart start) {
    JobFeatures features;
    features.mutable_spec()->add_numeric(column);
    return CheckSnapshotFits(manifest, features, training, workers, start);
  };
  const Training same = manifest.training();
  EXPECT_TRUE(fits(same, "x", 1, SnapshotStart::kSameStream).ok());
  EXPECT_FALSE(fits(same, "y", 1, SnapshotStart::kSameStream).ok());
  EXPECT_FALSE(fits(same, "x", 2, SnapshotStart::kSameStream).ok());
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kNewStream).ok());
  Training other = same;
  other.set_model(Training::SOFTMAX);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  other = same;
  other.mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  other = same;
  other.mutable_embedding()->set_factors(same.embedding().factors() + 1);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok());
  Training network = same;
  network.set_model(Training::DEEP_FM);
  SnapshotManifest of_network = manifest;
  *of_network.mutable_training() = network;
  JobFeatures features;
  features.mutable_spec()->add_numeric("x");
  network.mutable_hidden()->Add(64);
  EXPECT_FALSE(CheckSnapshotFits(of_network, features, network, 1, SnapshotStart::kNewStream).ok());
  network.mutable_hidden()->Add(32);
  EXPECT_TRUE(CheckSnapshotFits(of_network, features, network, 1, SnapshotStart::kNewStream).ok())
      << "what is the default anyway";
  other = same;
  other.set_batch_rows(same.batch_rows() + 1);
  EXPECT_TRUE(fits(other, "x", 1, SnapshotStart::kSameStream).ok())
      << "its state says how many rows of each worker it has counted";
  other.set_schedule(Training::BUFFER);
  EXPECT_FALSE(fits(other, "x", 1, SnapshotStart::kSameStream).ok())
      << "rows would be left out, or learnt from twice";
  EXPECT_TRUE(fits(other, "x", 1, SnapshotStart::kNewStream).ok());
  manifest.add_workers()->set_clock(1);
  EXPECT_FALSE(fits(same, "x", 2, SnapshotStart::kSameStream).ok())
      << "a sequential job's workers stand at one clock";
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kNewStream).ok());
  other = same;
  other.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  EXPECT_TRUE(fits(other, "x", 2, SnapshotStart::kSameStream).ok());
  manifest.mutable_workers(1)->set_left(true);
  EXPECT_TRUE(fits(same, "x", 2, SnapshotStart::kSameStream).ok());
  EXPECT_EQ(TrainingDifferences(manifest, same), "");
  EXPECT_NE(TrainingDifferences(manifest, other), "");
}

}  // namespace
}  // namespace millrace
