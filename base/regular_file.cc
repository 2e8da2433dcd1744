#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace millrace {
namespace {

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Status NoRegularFile(mode_t mode) {
  return absl::FailedPreconditionError(std::string("it is ") + KindOf(mode) +
                                       ", and no regular file");
}

}  // namespace

StatusOr<File> OpenRegularFile(const std::string& path) {
  // Opening a pipe waits for who writes to it, unless this is asked for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const int error = errno;
  struct stat info {};
  if (fd < 0) {
    // (A socket cannot be opened.)
    if (stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) return NoRegularFile(S_IFSOCK);
    return absl::NotFoundError(std::strerror(error));
  }
  if (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
    close(fd);
    return NoRegularFile(info.st_mode);
  }
  File file(fdopen(fd, "rb"));
  if (file != nullptr) return file;
  const int why = errno;
  close(fd);
  return absl::NotFoundError(std::strerror(why));
}

StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const File file, OpenRegularFile(path));
  return ReadToEnd(file.get(), most_bytes);
}

StatusOr<std::string> ReadToEnd(std::FILE* file, size_t most_bytes) {
  std::string text;
  std::array<char, 1 << 16> bytes{};
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file)) {
    text.append(bytes.data(), got);
    if (text.size() > most_bytes) {
      return absl::OutOfRangeError("it has more than " + std::to_string(most_bytes) + " bytes");
    }
  }
  if (std::ferror(file) != 0) return absl::UnavailableError(std::strerror(EIO));
  return text;
}

}  // namespace millrace
