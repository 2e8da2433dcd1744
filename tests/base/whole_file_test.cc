#include "base/whole_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

TEST(ReadWholeFile, ReadsAllBytesUpToALimit) {
  const TemporaryFolder folder;
  std::string bytes(200'000, 'x');
  bytes[100'000] = '\0';
  std::ofstream(folder / "file", std::ios::binary) << bytes;
  EXPECT_EQ(*ReadWholeFile(folder / "file", bytes.size()), bytes);
  EXPECT_TRUE(absl::IsOutOfRange(ReadWholeFile(folder / "file", bytes.size() - 1).status()));
  std::ofstream(folder / "empty") << "";
  EXPECT_EQ(*ReadWholeFile(folder / "empty", 0), "");
}

TEST(ReadWholeFile, SaysWhyThereIsNothingToRead) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadWholeFile(folder / "none", 9).status()));
  EXPECT_TRUE(absl::IsUnavailable(ReadWholeFile(folder.path(), 9).status()));
}

}  // namespace
}  // namespace millrace
