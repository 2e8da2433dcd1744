#include "base/file_checksum.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/atomic_file.h"
#include "base/crc32c.h"

namespace millrace {

StatusOr<FileChecksum> ChecksumOfFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::DataLossError(path + ": " + std::strerror(errno));
  FileChecksum found;
  std::array<char, 1 << 16> bytes{};
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get())) {
    found.crc32c = Crc32c({bytes.data(), got}, found.crc32c);
    found.bytes += got;
  }
  if (std::ferror(file.get()) != 0) return absl::DataLossError(path + ": " + std::strerror(EIO));
  return found;
}

}  // namespace millrace
