#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(AtomicFile, ThatDoesNotFitOnTheDiskIsAnErrorThatSaysSo) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteAtomicFile(folder / "file", "old").ok());
  std::filesystem::create_symlink("/dev/full", folder / "file.tmp");
  const Status status = WriteAtomicFile(folder / "file", "new");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("free space"));
  EXPECT_EQ(ContentOf(folder / "file"), "old");
}

TEST(AtomicFile, OfNoFolderIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const Status status = AtomicFile::Create(folder / "none/file").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "none/file"));
}

}  // namespace
}  // namespace millrace
