// When the parts of a snapshot are one.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/snapshot_files.h"
#include "runtime/snapshot_writer.h"

namespace millrace {
namespace {

class SnapshotManifestTest : public testing::Test {
 protected:
  SnapshotManifestTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SnapshotManifestTest() override { std::filesystem::remove_all(folder_); }

  // Of two, with one worker.
  void WritePart(ShardId shard, Clock clock, bool left) {
    SnapshotPart part;
    part.set_job("job");
    part.set_snapshot(7);
    part.set_shard(shard);
    part.set_shards(2);
    part.set_begin(shard);
    part.set_end(shard + 1);
    SnapshotPart::Worker& worker = *part.add_workers();
    worker.set_clock(clock);
    worker.set_left(left);
    ASSERT_TRUE(WriteJson(SnapshotFile(folder_, "part", shard, "json"), part).ok());
  }
  StatusOr<bool> End() {
    SnapshotManifest head;
    head.set_job("job");
    head.set_snapshot(7);
    return WriteManifest(folder_, head);
  }

  const std::string folder_ = testing::TempDir() + "millrace_snapshot_manifest_test";
};

TEST_F(SnapshotManifestTest, WaitsForAllParts) {
  WritePart(0, 5, false);
  EXPECT_FALSE(*End());
  WritePart(1, 5, false);
  EXPECT_TRUE(*End());
  EXPECT_EQ(CheckSnapshot(folder_)->workers(0).clock(), 5u);
}

TEST_F(SnapshotManifestTest, PartsOfDifferentClocksAreNotOneCut) {
  WritePart(0, 5, false);
  WritePart(1, 6, false);
  EXPECT_TRUE(absl::IsDataLoss(End().status()));
}

TEST_F(SnapshotManifestTest, AWorkerThatHasLeftSomeShardsAtItsCutHasSentAllThatIsInThem) {
  WritePart(0, 5, false);
  WritePart(1, 5, true);
  EXPECT_TRUE(*End());
}

}  // namespace
}  // namespace millrace
