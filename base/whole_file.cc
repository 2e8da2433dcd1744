#include "base/whole_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/atomic_file.h"

namespace millrace {

StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> bytes{};
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get())) {
    text.append(bytes.data(), got);
    if (text.size() > most_bytes) {
      return absl::OutOfRangeError("it has more than " + std::to_string(most_bytes) + " bytes");
    }
  }
  if (std::ferror(file.get()) != 0) return absl::UnavailableError(std::strerror(EIO));
  return text;
}

}  // namespace millrace
