// A CSV file, or standard input, with a header line: opened, checked, and read record by record.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "formats/csv_parser.h"

namespace millrace {

// Not thread-safe.
class CsvFile {
 public:
  struct Options {
    CsvLimits limits;
    // Bytes asked for at once. A pipe gives what it has, so rows are never held back.
    size_t block_bytes = size_t{1} << 18;
    // Set to true by a signal handler or another thread, it ends a wait for a pipe within 0.1 s:
    // Next() and Open() then return kCancelled. Not owned; may be null.
    const std::atomic<bool>* stop = nullptr;
  };

  // Opens `path` ("-" is standard input) and reads its header. Every error is one line that names
  // the file: not there, not readable, a directory, empty, UTF-16, a header that is malformed, is
  // not UTF-8, or has an empty or a repeated name. Names are trimmed of spaces and tabs.
  static StatusOr<std::unique_ptr<CsvFile>> Open(std::string path, Options options);
  static StatusOr<std::unique_ptr<CsvFile>> Open(std::string path) {
    return Open(std::move(path), Options());
  }
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  // The next record: true, and *record is it (look at record->ok(); its fields may be more or
  // fewer than the header's); false at the end; an error if reading fails. The record's views are
  // valid until the next call. The header is no record.
  StatusOr<bool> Next(CsvRecord* record);

  // Sets a function that Next() calls when a pipe is empty, before it waits, 5 ms later and every
  // 0.1 s while it waits, so that the caller can do other work. Next() returns the function's
  // error.
  void set_while_waiting(std::function<Status()> while_waiting) {
    while_waiting_ = std::move(while_waiting);
  }

  // The file's name in messages: its path, or "standard input".
  const std::string& name() const { return name_; }
  bool is_stdin() const { return is_stdin_; }
  const std::vector<std::string>& columns() const { return columns_; }

  // For a progress bar: bytes of the records returned so far, the header's included, and the size
  // of the file when it was opened (none for a pipe).
  uint64_t bytes_read() const { return parser_.consumed(); }
  std::optional<uint64_t> total_bytes() const { return total_bytes_; }

 private:
  CsvFile(std::string name, int fd, bool is_stdin, const Options& options);

  Status ReadHeader();
  Status ReadBlock();
  Status WaitReadable();

  std::string name_;
  int fd_;
  bool is_stdin_;
  Options options_;
  bool pollable_ = false;  // a pipe, terminal or socket: reading it may wait
  std::optional<uint64_t> total_bytes_;
  uint64_t received_bytes_ = 0;
  CsvParser parser_;
  std::vector<std::string> columns_;
  std::function<Status()> while_waiting_;
};

// The position of column `name` in `columns`. The error says that the file called `file` has no
// such column, which one may be meant, and which ones it has.
StatusOr<size_t> FindColumn(const std::vector<std::string>& columns, std::string_view name,
                            std::string_view file);

}  // namespace millrace
