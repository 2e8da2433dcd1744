#include "base/whole_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/atomic_file.h"
#include "base/regular_file.h"

namespace millrace {

StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(std::strerror(errno));
  return ReadToEnd(file.get(), most_bytes);
}

}  // namespace millrace
