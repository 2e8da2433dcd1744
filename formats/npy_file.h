// Arrays that numpy.load reads, and that numpy.save has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/status.h"

namespace millrace {

// Writes `values` (rows x columns, row-major) as a NumPy .npy file, version 1.0
// (numpy.lib.format): an AtomicFile. Without columns: an array of one dimension; with 0 of them
// each row is empty, which is another shape.
Status WriteNpy(const std::string& path, std::span<const float> values, size_t rows,
                std::optional<size_t> columns);
Status WriteNpy(const std::string& path, std::span<const double> values, size_t rows,
                std::optional<size_t> columns);

// NumPy's names of the types that Millrace writes, all little-endian.
inline constexpr std::string_view kNpyFloat = "<f4";
inline constexpr std::string_view kNpyDouble = "<f8";
inline constexpr std::string_view kNpyUint32 = "<u4";
inline constexpr std::string_view kNpyUint64 = "<u8";
inline constexpr std::string_view kNpyInt64 = "<i8";

// Writes an array row by row, whose number of rows is not known yet. Errors are those of
// AtomicFile. Not thread-safe.
class NpyWriter {
 public:
  // Without columns: an array of one dimension.
  static StatusOr<NpyWriter> Create(const std::string& path, std::string_view type,
                                    std::optional<size_t> columns);

  template <typename T>
  Status Append(std::span<const T> values) {
    return file_.Append({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  // Writes the shape, and commits.
  Status Finish(size_t rows);

 private:
  NpyWriter(AtomicFile file, std::string_view type, std::optional<size_t> columns)
      : file_(std::move(file)), type_(type), columns_(columns) {}

  AtomicFile file_;
  std::string type_;
  std::optional<size_t> columns_;
};

// Reads an array row by row. Errors: DataLoss, with the file's name and what is wrong.
class NpyReader {
 public:
  // The array must have this type and these columns (none: one dimension). One of empty rows may
  // say that it has one dimension, as Millrace once wrote it.
  static StatusOr<NpyReader> Open(const std::string& path, std::string_view type,
                                  std::optional<size_t> columns);

  size_t rows() const { return rows_; }
  // Reads the next values, as many as there is room for.
  template <typename T>
  Status Read(std::span<T> values) {
    return ReadBytes({reinterpret_cast<char*>(values.data()), values.size_bytes()});
  }
  // Skips so many bytes.
  Status Skip(size_t bytes);

 private:
  NpyReader(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  Status ReadBytes(std::span<char> bytes);

  std::string path_;
  File file_;
  size_t rows_ = 0;
};

}  // namespace millrace
