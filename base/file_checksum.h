// The size and checksum of a file, by which a copy of it is checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace millrace {

struct FileChecksum {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Reads the whole file. DataLoss, with its path and the reason, when it cannot be read, or is no
// regular file.
StatusOr<FileChecksum> ChecksumOfFile(const std::string& path);

}  // namespace millrace
