#include "formats/npy_file.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/regular_file.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the header says little-endian");

// The header of an array. Room is left for any number of rows, so that it may be written last.
std::string Header(std::string_view type, size_t rows, std::optional<size_t> columns) {
  constexpr size_t kBytes = 128;
  const std::string shape =
      std::to_string(rows) + (columns ? ", " + std::to_string(*columns) : ",");
  std::string header("\x93NUMPY\x01\x00", 8);
  constexpr size_t kLength = kBytes - 10;  // of what follows magic, version and length
  header.push_back(static_cast<char>(kLength & 0xff));
  header.push_back(static_cast<char>(kLength >> 8));
  header +=
      "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(kBytes - 1, ' ');
  header.push_back('\n');
  return header;
}

template <typename T>
Status Write(const std::string& path, std::string_view type, std::span<const T> values, size_t rows,
             std::optional<size_t> columns) {
  MILLRACE_CHECK(values.size() == rows * columns.value_or(1));
  MILLRACE_ASSIGN_OR_RETURN(NpyWriter file, NpyWriter::Create(path, type, columns));
  MILLRACE_RETURN_IF_ERROR(file.Append(values));
  return file.Finish(rows);
}

}  // namespace

Status WriteNpy(const std::string& path, std::span<const float> values, size_t rows,
                std::optional<size_t> columns) {
  return Write(path, kNpyFloat, values, rows, columns);
}

Status WriteNpy(const std::string& path, std::span<const double> values, size_t rows,
                std::optional<size_t> columns) {
  return Write(path, kNpyDouble, values, rows, columns);
}

StatusOr<NpyWriter> NpyWriter::Create(const std::string& path, std::string_view type,
                                      std::optional<size_t> columns) {
  MILLRACE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MILLRACE_RETURN_IF_ERROR(file.Append(Header(type, 0, columns)));
  return NpyWriter(std::move(file), type, columns);
}

Status NpyWriter::Finish(size_t rows) {
  MILLRACE_RETURN_IF_ERROR(file_.Rewind());
  MILLRACE_RETURN_IF_ERROR(file_.Append(Header(type_, rows, columns_)));
  return file_.Commit();
}

StatusOr<NpyReader> NpyReader::Open(const std::string& path, std::string_view type,
                                    std::optional<size_t> columns) {
  const auto wrong = [&path](const std::string& what) {
    return absl::DataLossError(path + ": " + what);
  };
  StatusOr<File> file = OpenRegularFile(path);
  if (!file.ok()) return wrong(std::string(file.status().message()));
  NpyReader reader(path, *std::move(file));
  std::string start(10, '\0');
  MILLRACE_RETURN_IF_ERROR(reader.ReadBytes(start));
  if (!start.starts_with(std::string("\x93NUMPY\x01", 7))) {
    return wrong("it is not a NumPy file of format version 1");
  }
  std::string header(static_cast<uint8_t>(start[8]) + 256u * static_cast<uint8_t>(start[9]), '\0');
  MILLRACE_RETURN_IF_ERROR(reader.ReadBytes(header));
  const size_t shape = header.find("'shape': (");
  if (header.find("'" + std::string(type) + "'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos || shape == std::string::npos) {
    return wrong("it is not an array of " + std::string(type) + " in row-major order");
  }
  const char* const end = header.data() + header.size();
  const auto rows = std::from_chars(header.data() + shape + 10, end, reader.rows_);
  size_t found = 0;
  if (rows.ec == std::errc() && end - rows.ptr > 2) (void)std::from_chars(rows.ptr + 2, end, found);
  if (rows.ec != std::errc() || found != columns.value_or(0)) {
    return wrong("its array has another shape than (rows" +
                 (columns ? ", " + std::to_string(*columns) : "") + ")");
  }
  return reader;
}

Status NpyReader::ReadBytes(std::span<char> bytes) {
  if (std::fread(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(path_ + ": the file is truncated");
}

Status NpyReader::Skip(size_t bytes) {
  if (std::fseek(file_.get(), static_cast<long>(bytes), SEEK_CUR) == 0) return absl::OkStatus();
  return absl::DataLossError(path_ + ": " + std::strerror(errno));
}

}  // namespace millrace
