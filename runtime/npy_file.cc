#include "runtime/npy_file.h"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/check.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the header says little-endian");

Status Write(const std::string& path, std::string_view type, const void* data, size_t bytes,
             size_t rows, size_t columns) {
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
  while ((10 + header.size() + 1) % 64 != 0) header.push_back(' ');
  header.push_back('\n');
  std::string start("\x93NUMPY\x01\x00", 8);
  start.push_back(static_cast<char>(header.size() & 0xff));
  start.push_back(static_cast<char>(header.size() >> 8));

  const std::string temporary = path + ".tmp";
  const auto failed = [&path] {
    return absl::UnavailableError("the weights file " + path +
                                  " cannot be written: " + std::strerror(errno));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return failed();
  bool good = std::fwrite(start.data(), 1, start.size(), file) == start.size() &&
              std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
              std::fwrite(data, 1, bytes, file) == bytes;
  good = std::fclose(file) == 0 && good;
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) return failed();
  return absl::OkStatus();
}

}  // namespace

Status WriteNpy(const std::string& path, std::span<const float> values, size_t rows,
                size_t columns) {
  MILLRACE_CHECK(values.size() == rows * columns);
  return Write(path, "<f4", values.data(), values.size_bytes(), rows, columns);
}

Status WriteNpy(const std::string& path, std::span<const double> values, size_t rows,
                size_t columns) {
  MILLRACE_CHECK(values.size() == rows * columns);
  return Write(path, "<f8", values.data(), values.size_bytes(), rows, columns);
}

}  // namespace millrace
