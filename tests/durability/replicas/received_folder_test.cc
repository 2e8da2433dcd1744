#include "durability/replicas/received_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/crc32c.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Status Receive(ReceivedFolder& received, const std::string& name, const std::string& bytes) {
  MILLRACE_RETURN_IF_ERROR(received.BeginFile(name, bytes.size()));
  MILLRACE_RETURN_IF_ERROR(received.Append(bytes));
  return received.EndFile(Crc32c(bytes));
}

TEST(ReceivedFolder, GetsItsNameOnlyWhenAllFilesAreComplete) {
  TemporaryFolder folder;
  auto received = ReceivedFolder::Begin(folder / "a/store");
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_TRUE(Receive(**received, "000012.sst", "twelve").ok());
  ASSERT_TRUE(Receive(**received, "CURRENT", "").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "a/store"));
  ASSERT_TRUE((*received)->Commit().ok());
  received->reset();
  EXPECT_EQ(BytesOf(folder / "a/store/000012.sst"), "twelve");
  EXPECT_TRUE(std::filesystem::exists(folder / "a/store/CURRENT"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a/store.incoming"));
}

TEST(ReceivedFolder, RemovesTheFilesOfACrashAndItsOwnUnlessCommitted) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "store.incoming");
  std::ofstream(folder / "store.incoming/CURRENT") << "of a crash";
  {
    auto received = ReceivedFolder::Begin(folder / "store");
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_TRUE(std::filesystem::is_empty((*received)->path()));
    ASSERT_TRUE(Receive(**received, "CURRENT", "new").ok());
    ASSERT_TRUE((*received)->BeginFile("000001.sst", 5).ok());
    EXPECT_EQ((*received)->Commit().code(), absl::StatusCode::kDataLoss) << "a file is not whole";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ReceivedFolder, RefusesDamagedFiles) {
  TemporaryFolder folder;
  auto received = ReceivedFolder::Begin(folder / "short");
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_TRUE((*received)->BeginFile("short", 6).ok());
  ASSERT_TRUE((*received)->Append("five5").ok());
  EXPECT_EQ((*received)->EndFile(Crc32c("five5")).code(), absl::StatusCode::kDataLoss);

  received = ReceivedFolder::Begin(folder / "long");
  ASSERT_TRUE((*received)->BeginFile("long", 4).ok());
  EXPECT_EQ((*received)->Append("five5").code(), absl::StatusCode::kDataLoss);

  received = ReceivedFolder::Begin(folder / "flipped");
  ASSERT_TRUE((*received)->BeginFile("flipped", 5).ok());
  ASSERT_TRUE((*received)->Append("fiwe5").ok());
  const Status flipped = (*received)->EndFile(Crc32c("five5"));
  EXPECT_EQ(flipped.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(flipped.message().find("flipped is damaged"), absl::string_view::npos) << flipped;
}

TEST(ReceivedFolder, IsNotCommittedAfterAnError) {
  TemporaryFolder folder;
  auto received = ReceivedFolder::Begin(folder / "store");
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_TRUE(Receive(**received, "CURRENT", "once").ok());
  ASSERT_FALSE((*received)->BeginFile("CURRENT", 1).ok());
  EXPECT_DEATH((void)(*received)->Commit(), "broken invariant");
}

TEST(ReceivedFolder, IsForItsOwnerOnly) {
  using std::filesystem::perms;
  TemporaryFolder folder;
  const mode_t before = umask(0);
  auto received = ReceivedFolder::Begin(folder / "store");
  ASSERT_TRUE(received.ok()) << received.status();
  const Status written = Receive(**received, "CURRENT", "once");
  umask(before);
  ASSERT_TRUE(written.ok()) << written;
  ASSERT_TRUE((*received)->Commit().ok());
  EXPECT_EQ(std::filesystem::status(folder / "store").permissions(), perms::owner_all);
  EXPECT_EQ(std::filesystem::status(folder / "store/CURRENT").permissions(),
            perms::owner_read | perms::owner_write);
}

TEST(ReceivedFolder, RefusesPathsOfOtherFoldersAndASecondFileOfAName) {
  TemporaryFolder folder;
  auto received = ReceivedFolder::Begin(folder / "store");
  ASSERT_TRUE(received.ok()) << received.status();
  for (const char* name : {"../passwd", "/etc/passwd", "a/b", "", ".", "..", ".hidden"}) {
    EXPECT_EQ((*received)->BeginFile(name, 1).code(), absl::StatusCode::kDataLoss) << name;
  }
  ASSERT_TRUE(Receive(**received, "CURRENT", "once").ok());
  EXPECT_EQ((*received)->BeginFile("CURRENT", 1).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
