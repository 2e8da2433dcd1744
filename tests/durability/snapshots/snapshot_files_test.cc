#include "durability/snapshots/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "durability/snapshots/snapshot_reader.h"
#include "tests/durability/snapshots/snapshot_fixture.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using snapshot_tests::HeadOf;
using snapshot_tests::Shard;
using snapshot_tests::ShardOf;
using snapshot_tests::WriteAll;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace millrace
