#include "base/private_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using std::filesystem::perms;

perms PermissionsOf(const std::string& path) { return std::filesystem::status(path).permissions(); }

TEST(PrivateFolder, AllThatAreMadeAreForTheirOwnerOnlyWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  const std::error_code made = MakePrivateFolder(folder / "a/b");
  const std::error_code with_slash = MakePrivateFolder(folder / "c/");
  umask(before);
  EXPECT_FALSE(made) << made.message();
  EXPECT_FALSE(with_slash) << with_slash.message();
  for (const char* name : {"a", "a/b", "c"}) {
    EXPECT_EQ(PermissionsOf(folder / name), perms::owner_all) << name;
  }
}

TEST(PrivateFolder, OneThatExistsStaysAsItIs) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), perms(0750));
  EXPECT_FALSE(MakePrivateFolder(folder.path()));
  EXPECT_EQ(PermissionsOf(folder.path()), perms(0750));
}

TEST(PrivateFolder, AFileInItsPlaceIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  EXPECT_EQ(MakePrivateFolder(folder / "file"), std::errc::file_exists);
  EXPECT_EQ(MakePrivateFolder(folder / "file/below"), std::errc::file_exists);
}

TEST(PrivateFile, LosesThePermissionsOfOthers) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  std::filesystem::permissions(folder / "file", perms(0644));
  const int file = open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  MakePrivate(file);
  close(file);
  EXPECT_EQ(PermissionsOf(folder / "file"), perms(0600));
}

TEST(PrivateFile, APipeKeepsItsPermissions) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::permissions(folder / "pipe", perms(0644));
  const int file = open((folder / "pipe").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  MakePrivate(file);
  close(file);
  EXPECT_EQ(PermissionsOf(folder / "pipe"), perms(0644));
}

}  // namespace
}  // namespace millrace
