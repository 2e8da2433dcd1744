#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(AtomicFile, IsThereWhenItIsWholeAndNotBefore) {
  const TemporaryFolder folder;
  StatusOr<AtomicFile> file = AtomicFile::Create(folder / "file");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("0123").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
  ASSERT_TRUE(file->Rewind().ok());
  ASSERT_TRUE(file->Append("ab").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ContentOf(folder / "file"), "ab23");
  EXPECT_FALSE(std::filesystem::exists(folder / "file.tmp"));
}

TEST(AtomicFile, LeavesWhatWasThereWhenItIsNotCommitted) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteAtomicFile(folder / "file", "old").ok());
  {
    StatusOr<AtomicFile> file = AtomicFile::Create(folder / "file");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append("new").ok());
    const AtomicFile moved = *std::move(file);
  }
  EXPECT_EQ(ContentOf(folder / "file"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "file.tmp"));
}

TEST(AtomicFile, ThatAnotherWritesIsLeftToIt) {
  const TemporaryFolder folder;
  StatusOr<AtomicFile> first = AtomicFile::Create(folder / "file");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->Append("first").ok());
  const Status second = WriteAtomicFile(folder / "file", "second");
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(second.message(), HasSubstr("another process is writing " + (folder / "file")));
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(ContentOf(folder / "file"), "first");
}

TEST(AtomicFile, ReplacesWhatAKilledProcessHasLeft) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file.tmp") << "half of a longer text";
  ASSERT_TRUE(WriteAtomicFile(folder / "file", "whole").ok());
  EXPECT_EQ(ContentOf(folder / "file"), "whole");
}

TEST(AtomicFile, ThatMayNotGrowIsAnErrorThatSaysSo) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteAtomicFile(folder / "file", "old").ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteAtomicFile(folder / "file", "new");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -f"));
  EXPECT_EQ(ContentOf(folder / "file"), "old");
}

TEST(AtomicFile, IsForItsOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  const Status written = WriteAtomicFile(folder / "file", "secret");
  umask(before);
  ASSERT_TRUE(written.ok()) << written;
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder / "file").permissions(),
            perms::owner_read | perms::owner_write);
}

TEST(AtomicFile, FollowsNoLinkThatStandsWhereItsTemporaryFileIsToBe) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteAtomicFile(folder / "victim", "untouched").ok());
  std::filesystem::create_symlink(folder / "victim", folder / "file.tmp");
  const Status written = WriteAtomicFile(folder / "file", "new");
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(ContentOf(folder / "victim"), "untouched");
  EXPECT_EQ(ContentOf(folder / "file"), "new");
}

TEST(AtomicFile, TakesThePlaceOfNoLinkToADescriptorOrToNowhere) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/proc/self/exe", folder / "as-dev-stdout");  // of a regular file
  std::filesystem::create_symlink("missing", folder / "dangling");
  for (const char* name : {"as-dev-stdout", "dangling"}) {
    const Status status = AtomicFile::Create(folder / name).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_TRUE(std::filesystem::is_symlink(folder / name));
  }
}

TEST(AtomicFile, OfNoFolderIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const Status status = AtomicFile::Create(folder / "none/file").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "none/file"));
}

TEST(AtomicFile, TakesThePlaceOfNoDeviceAndNoFolder) {
  const TemporaryFolder folder;
  for (const std::string& path : {std::string("/dev/full"), folder.path()}) {
    const Status status = WriteAtomicFile(path, "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find(path), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace millrace
