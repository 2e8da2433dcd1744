// Room for rows, in memory and in a scratch file.
#include "stores/row_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "stores/scratch_file.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ScratchFile, GrowsByZeroesAndLeavesNoName) {
  TemporaryFolder folder;
  auto file = ScratchFile::Create(folder.path(), 20'000);
  ASSERT_TRUE(file.ok()) << file.status();
  auto first = file->Grow(10'000);
  ASSERT_TRUE(first.ok()) << first.status();
  std::memset(*first, 1, 10'000);
  auto second = file->Grow(5000);
  ASSERT_TRUE(second.ok()) << second.status();
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ((*second)[i], std::byte{0}) << i;
  for (size_t i = 0; i < 10'000; ++i) ASSERT_EQ((*first)[i], std::byte{1}) << i;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "a crash must leave nothing";
  EXPECT_TRUE(absl::IsResourceExhausted(file->Grow(5001).status()));
  EXPECT_TRUE(file->Grow(5000).ok());
}

TEST(ScratchFile, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const auto file = ScratchFile::Create("/nowhere/at/all", 1000);
  EXPECT_THAT(std::string(file.status().message()),
              AllOf(HasSubstr("/nowhere/at/all"), HasSubstr("cannot be written")));
}

TEST(ScratchFile, IsForItsOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  const auto file = ScratchFile::Create(folder.path(), 1000);
  umask(before);
  ASSERT_TRUE(file.ok()) << file.status();
  size_t found = 0;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the one that lists them
    const std::string name = std::filesystem::read_symlink(open.path(), closed);
    if (!name.starts_with(folder.path())) continue;
    ++found;
    EXPECT_EQ(std::filesystem::status(open.path()).permissions(), std::filesystem::perms(0600));
  }
  EXPECT_EQ(found, 1u);
}

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(ScratchFile, OneThatCannotBeMappedIsAnErrorAndLeavesNoFileOpen) {
  TemporaryFolder folder;
  const size_t open = OpenFiles();
  constexpr size_t kMoreThanAnAddressSpace = size_t{1} << 62;
  const auto file = ScratchFile::Create(folder.path(), kMoreThanAnAddressSpace);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("cannot be mapped"));
  EXPECT_EQ(OpenFiles(), open);
}

void Write(RowSpace& space, size_t row, size_t bytes) {
  std::memset(space.at(row), static_cast<int>(row % 251), bytes);
}

bool Holds(const RowSpace& space, size_t row, size_t bytes) {
  const std::vector<std::byte> wanted(bytes, static_cast<std::byte>(row % 251));
  return std::memcmp(space.at(row), wanted.data(), bytes) == 0;
}

TEST(RowSpace, RowsStayWhereTheyAreInMemoryInTheScratchFileAndBeyond) {
  for (const size_t row_bytes : {1, 13, 24, 160, 5000}) {
    TemporaryFolder folder;
    RowSpace space(
        row_bytes,
        {.memory_bytes = 10'000, .scratch_bytes = 30'000, .scratch_folder = folder.path()});
    std::vector<std::byte*> places;
    const size_t rows = 100'000 / row_bytes;
    for (size_t row = 0; row < rows; ++row) {
      ASSERT_EQ(space.size(), row);
      space.Add();
      places.push_back(space.at(row));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(places.back()) % 8, 0u);
      Write(space, row, row_bytes);
    }
    for (size_t row = 0; row < rows; ++row) {
      ASSERT_EQ(space.at(row), places[row]);
      ASSERT_TRUE(Holds(space, row, row_bytes)) << row << " of " << row_bytes << " bytes";
    }
    EXPECT_TRUE(space.scratch_status().ok());
    EXPECT_LE(space.fitting(), 40'000 / row_bytes);
  }
}

TEST(RowSpace, RowsThatFillManyBlocksOfMemoryDoNotOverlap) {
  for (const size_t row_bytes : {160, 30'000, 50'000'000}) {
    RowSpace space(row_bytes, {});
    const size_t rows = 100'000'000 / row_bytes;
    for (size_t row = 0; row < rows; ++row) {
      space.Add();
      *space.at(row) = *(space.at(row) + row_bytes - 1) = static_cast<std::byte>(row % 251);
    }
    for (size_t row = 0; row < rows; ++row) {
      ASSERT_EQ(*space.at(row), static_cast<std::byte>(row % 251)) << row;
      ASSERT_EQ(*(space.at(row) + row_bytes - 1), static_cast<std::byte>(row % 251)) << row;
    }
  }
}

TEST(RowSpace, ScratchBeginsWhereMemoryEnds) {
  RowSpace space(100, {.memory_bytes = 1000, .scratch_bytes = 1000, .scratch_folder = "/nowhere"});
  EXPECT_GT(space.fitting(), 15u);
  for (int row = 0; row < 8; ++row) space.Add();
  EXPECT_TRUE(space.scratch_status().ok()) << "not asked for yet";
  for (int row = 8; row < 30; ++row) space.Add();
  EXPECT_THAT(std::string(space.scratch_status().message()), HasSubstr("/nowhere"));
  EXPECT_LE(space.fitting(), 16u) << "the scratch file counts no more";
  Write(space, 29, 100);
  EXPECT_TRUE(Holds(space, 29, 100)) << "it went to memory all the same";
}

TEST(RowSpace, AFullDiskEndsTheScratchFileAndLosesNoRow) {
  TemporaryFolder folder;
  ChildProcess child({STORES_CHILD, "scratch", folder.path()});
  const std::string said = child.ReadLine().value_or("");
  if (said == "no mount") GTEST_SKIP() << "this user may not mount a disk to fill";
  // Two MiB in memory, and a disk of six, of which a tenth is left to others.
  EXPECT_THAT(said, AllOf(StartsWith("7340032 RESOURCE_EXHAUSTED"), HasSubstr(folder.path()),
                          HasSubstr("free space")));
}

}  // namespace
}  // namespace millrace
