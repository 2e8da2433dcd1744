#include "durability/checkpoints/shard_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "tasks/checkpoint.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using Source = ShardCopy::Source;

class ShardStoreTest : public testing::Test {
 protected:
  ShardStoreTest() {
    config_.set_name("job");
    config_.mutable_server()->set_data_dir(folder_ / "data");
  }

  std::string Path(const std::string& name) const { return folder_ / ("data/" + name); }
  bool IsThere(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  static void Write(DiskByteMap& store, Offset offset) {
    ASSERT_TRUE(store.Write(BatchOf({}, offset)).ok());
  }
  void Make(const std::string& name, Offset offset) {
    auto store = OpenRocksDb(Path(name));
    ASSERT_TRUE(store.ok()) << store.status();
    Write(**store, offset);
  }
  ShardCopy Open(const FetchCopy& fetch = nullptr) {
    StatusOr<ShardCopy> copy = OpenShardStore(config_, 1, fetch);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  void RemoveStore() {
    ShardCopy copy = Open();
    copy.store.reset();
    ASSERT_TRUE(RemoveShardStore(copy).ok());
  }
  static size_t FilesIn(const std::filesystem::path& folder) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                             std::filesystem::directory_iterator()));
  }
  static Offset OffsetOf(const ShardCopy& copy) { return *ReadParametersOffset(*copy.store); }

  TemporaryFolder folder_;
  JobConfig config_;
};

TEST_F(ShardStoreTest, PrefersItsOwnStoreThenItsReplicaThenACopyOfAPeer) {
  int asked = 0;
  const FetchCopy fetch = [&](ShardId shard, const std::string& folder) {
    ++asked;
    EXPECT_EQ(shard, 1u);
    EXPECT_EQ(folder, Path("job-shard-1"));
    Make("job-shard-1", 30);
    return std::optional<std::string>("peer:1");
  };
  {
    const ShardCopy copy = Open(fetch);
    EXPECT_EQ(copy.source, Source::kPeer);
    EXPECT_EQ(copy.peer, "peer:1");
    EXPECT_EQ(OffsetOf(copy), 30);
    EXPECT_GT(copy.bytes, 0u);
  }
  EXPECT_EQ(Open(fetch).source, Source::kDisk);
  RemoveStore();
  Make("job-shard-1-replica", 20);
  {
    const ShardCopy copy = Open(fetch);
    EXPECT_EQ(copy.source, Source::kReplicaHere);
    EXPECT_EQ(OffsetOf(copy), 20);
  }
  EXPECT_FALSE(IsThere("job-shard-1-replica"));
  EXPECT_EQ(asked, 1);
  RemoveStore();
  EXPECT_EQ(Open([](ShardId, const std::string&) { return std::optional<std::string>(); }).source,
            Source::kNothing);
}

TEST_F(ShardStoreTest, AStoreWithoutACompleteCheckpointIsReplacedByACopy) {
  Open();
  ASSERT_TRUE(IsThere("job-shard-1"));
  const ShardCopy copy = Open([&](ShardId, const std::string&) {
    Make("job-shard-1", 30);
    return std::optional<std::string>("peer:1");
  });
  EXPECT_EQ(copy.source, Source::kPeer);
  EXPECT_EQ(OffsetOf(copy), 30);
}

TEST_F(ShardStoreTest, UsesAnotherFolderWhileAProcessHasTheStoreOpenAndLaterKeepsTheFurthest) {
  Make("job-shard-1", 10);
  {
    ChildProcess zombie({STORES_CHILD, "hold", Path("job-shard-1")});
    ASSERT_EQ(zombie.ReadLine(), "open");
    ShardCopy second = Open();
    EXPECT_EQ(second.source, Source::kNothing);
    EXPECT_EQ(second.folder, Path("job-shard-1.2"));
    Write(*second.store, 20);
    ChildProcess another({STORES_CHILD, "hold", Path("job-shard-1.3")});
    ASSERT_EQ(another.ReadLine(), "open");
    second.store.reset();
    // Whose own folder is free again takes that.
    EXPECT_EQ(OffsetOf(Open()), 20);
    EXPECT_TRUE(IsThere("job-shard-1")) << "what is locked is not touched";
    EXPECT_TRUE(IsThere("job-shard-1.3"));
  }
  const ShardCopy copy = Open();
  EXPECT_EQ(OffsetOf(copy), 20);
  EXPECT_EQ(copy.folder, Path("job-shard-1.2"));
  EXPECT_FALSE(IsThere("job-shard-1")) << "the furthest has all that it had";
  EXPECT_FALSE(IsThere("job-shard-1.3"));
}

TEST_F(ShardStoreTest, WaitsForAStoreWhoseProcessEndsSoon) {
  Make("job-shard-1", 10);
  ChildProcess dying({STORES_CHILD, "hold", Path("job-shard-1")});
  ASSERT_EQ(dying.ReadLine(), "open");
  using std::chrono::steady_clock;
  const auto began = steady_clock::now();
  steady_clock::time_point killed;
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    dying.Kill();
    killed = steady_clock::now();
  });
  const std::string folder = Open().folder;
  killer.join();
  const bool in_time =
      killed - began < std::chrono::milliseconds(1500);  // it waits for two seconds
  EXPECT_TRUE(folder == Path("job-shard-1") || !in_time) << folder;
}

TEST_F(ShardStoreTest, AReplicaThatIsSetAsideIsNotUsedUntilItIsMovedToTheShardsFolder) {
  Make("job-shard-1-replica", 20);
  const StatusOr<std::string> aside = SetReplicaStoreAside(config_, 1);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_FALSE(IsThere("job-shard-1-replica"));
  Make("job-shard-1-replica", 10);
  EXPECT_EQ(OffsetOf(Open()), 10);
  RemoveStore();
  std::filesystem::rename(*aside, Path("job-shard-1"));
  EXPECT_EQ(OffsetOf(Open()), 20);
}

TEST_F(ShardStoreTest, DoesNotUseAReplicaThatAnotherProcessHasOpen) {
  Make("job-shard-1-replica", 10);
  ChildProcess zombie({STORES_CHILD, "hold", Path("job-shard-1-replica")});
  ASSERT_EQ(zombie.ReadLine(), "open");
  EXPECT_EQ(Open().source, Source::kNothing);
  EXPECT_TRUE(IsThere("job-shard-1-replica"));
}

TEST_F(ShardStoreTest, LeavesFoldersOfOtherNamesAsTheyAre) {
  for (const char* name :
       {"job-shard-1.incoming", "job-shard-1.x", "job-shard-10", "job-shard-1-replica-frozen-1"}) {
    Make(name, 99);
  }
  EXPECT_EQ(OffsetOf(Open()), 0);
  for (const char* name : {"job-shard-1.incoming", "job-shard-1.x", "job-shard-10"}) {
    EXPECT_TRUE(IsThere(name)) << name;
  }
  EXPECT_EQ(FrozenReplicaFolder(config_, 1, 1), Path("job-shard-1-replica-frozen-1"));
  const auto first = OpenReplicaStore(config_, 1);
  const auto tenth = OpenReplicaStore(config_, 10);
  ASSERT_TRUE(first.ok() && tenth.ok());
  RemoveFrozenReplicas(config_, 10);
  EXPECT_TRUE(IsThere("job-shard-1-replica-frozen-1"));
  RemoveFrozenReplicas(config_, 1);
  EXPECT_FALSE(IsThere("job-shard-1-replica-frozen-1"));
}

TEST_F(ShardStoreTest, AllStoresOfAShardThatIsHostedElsewhereAreRemovedAndNothingElse) {
  for (const char* name : {"job-shard-1", "job-shard-1.3", "job-shard-1-replica", "job-shard-10"}) {
    Make(name, 10);
  }
  EXPECT_EQ(RemoveShardStores(config_, 1), absl::OkStatus());
  EXPECT_FALSE(IsThere("job-shard-1"));
  EXPECT_FALSE(IsThere("job-shard-1.3"));
  EXPECT_TRUE(IsThere("job-shard-1-replica"));
  EXPECT_TRUE(IsThere("job-shard-10"));
  EXPECT_EQ(RemoveShardStores(config_, 1), absl::OkStatus()) << "there is none";
}

// The store of who died before anything whole was in it is removed when it is opened again; a
// store without some of its files could not be opened.
TEST_F(ShardStoreTest, WhoIsKilledWhileItRemovesAStoreLeavesItWholeOrNotThere) {
  constexpr size_t kFiles = 3000;
  constexpr int kTurns = 30;  // and until one was killed that had begun
  const std::filesystem::path store = Path("job-shard-1");
  int begun = 0;
  for (int turn = 0; turn < kTurns || begun == 0; ++turn) {
    std::filesystem::create_directories(store);
    for (size_t i = 0; i < kFiles; ++i) std::ofstream(store / (std::to_string(i) + ".log"));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(RemoveShardStores(config_, 1).ok() ? 0 : 1);
    std::this_thread::sleep_for(std::chrono::microseconds(300 * turn));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    if (std::filesystem::exists(store)) {
      ASSERT_EQ(FilesIn(store), kFiles);
    } else {
      ++begun;
    }
  }
  std::filesystem::create_directories(Path("job-shard-1-replica.removed"));
  std::filesystem::create_directories(Path("job-shard-10.removed"));
  std::filesystem::remove_all(store);
  Open();
  EXPECT_FALSE(IsThere("job-shard-1.removed"));
  EXPECT_FALSE(IsThere("job-shard-1-replica.removed"));
  EXPECT_TRUE(IsThere("job-shard-10.removed"));  // another shard's
}

TEST_F(ShardStoreTest, FrozenReplicasOfAReplicaThatIsNotOpenHereAreNotRemoved) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // RocksDB has threads
  Make("job-shard-1-replica", 10);
  EXPECT_DEATH(RemoveFrozenReplicas(config_, 1), "broken invariant");
}

TEST_F(ShardStoreTest, NoStoreIsRemovedOrMovedWhileThisProcessHasItOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // RocksDB has threads
  const ShardCopy copy = Open();
  EXPECT_DEATH((void)RemoveShardStore(copy), "broken invariant");
  EXPECT_DEATH((void)RemoveShardStore({.folder = copy.folder}), "broken invariant");
  const auto replica = OpenReplicaStore(config_, 1);
  ASSERT_TRUE(replica.ok()) << replica.status();
  EXPECT_DEATH((void)RemoveReplicaStore(config_, 1), "broken invariant");
  EXPECT_DEATH((void)SetReplicaStoreAside(config_, 1), "broken invariant");
}

TEST_F(ShardStoreTest, NoStoreIsRemovedOrMovedWhileAnotherProcessHasItOpen) {
  for (const char* name : {"job-shard-1", "job-shard-1-replica"}) {
    Make(name, 10);
    ChildProcess other({STORES_CHILD, "hold", Path(name)});
    ASSERT_EQ(other.ReadLine(), "open");
    const bool is_replica = std::string(name).ends_with("replica");
    const Status removed =
        is_replica ? RemoveReplicaStore(config_, 1) : RemoveShardStore({.folder = Path(name)});
    EXPECT_TRUE(absl::IsFailedPrecondition(removed)) << removed;
    EXPECT_NE(removed.message().find(Path(name)), absl::string_view::npos) << removed;
    const Status other_way =
        is_replica ? SetReplicaStoreAside(config_, 1).status() : RemoveShardStores(config_, 1);
    EXPECT_TRUE(absl::IsFailedPrecondition(other_way)) << other_way;
    EXPECT_TRUE(IsThere(name));
  }
  EXPECT_TRUE(RemoveReplicaStore(config_, 1).ok());
  EXPECT_FALSE(IsThere("job-shard-1-replica"));
}

}  // namespace
}  // namespace millrace
