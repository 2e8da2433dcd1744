#include "base/file_checksum.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32c.h"
#include "base/regular_file.h"

namespace millrace {

StatusOr<FileChecksum> ChecksumOfFile(const std::string& path) {
  const StatusOr<File> opened = OpenRegularFile(path);
  if (!opened.ok())
    return absl::DataLossError(path + ": " + std::string(opened.status().message()));
  std::FILE* const file = opened->get();
  FileChecksum found;
  std::array<char, 1 << 16> bytes{};
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file)) {
    found.crc32c = Crc32c({bytes.data(), got}, found.crc32c);
    found.bytes += got;
  }
  if (std::ferror(file) != 0) return absl::DataLossError(path + ": " + std::strerror(EIO));
  return found;
}

}  // namespace millrace
