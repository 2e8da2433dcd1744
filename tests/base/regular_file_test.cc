#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file_checksum.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(ReadRegularFile, ReadsAllBytesUpToALimitAlsoBehindALink) {
  const TemporaryFolder folder;
  const std::string bytes(200'000, 'x');
  std::ofstream(folder / "file", std::ios::binary) << bytes;
  ASSERT_EQ(symlink("file", (folder / "link").c_str()), 0);
  EXPECT_EQ(*ReadRegularFile(folder / "link", bytes.size()), bytes);
  EXPECT_TRUE(absl::IsOutOfRange(ReadRegularFile(folder / "file", bytes.size() - 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile(folder / "none", 9).status()));
}

TEST(ReadRegularFile, RefusesAtOnceWhatIsNone) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = folder / "socket";
  ASSERT_LT(socket_path.size(), sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto why = [](const std::string& path) {
    const Status status = ReadRegularFile(path, 9).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << path << status;
    return std::string(status.message());
  };
  EXPECT_EQ(why(pipe), "it is a pipe, and no regular file");
  EXPECT_EQ(why(socket_path), "it is a socket, and no regular file");
  EXPECT_EQ(why(folder.path()), "it is a folder, and no regular file");
  EXPECT_EQ(why("/dev/null"), "it is a device, and no regular file");
  close(listener);
  const Status checksum = ChecksumOfFile(pipe).status();
  EXPECT_TRUE(absl::IsDataLoss(checksum)) << checksum;
  EXPECT_THAT(std::string(checksum.message()), HasSubstr(pipe + ": it is a pipe"));
}

}  // namespace
}  // namespace millrace
