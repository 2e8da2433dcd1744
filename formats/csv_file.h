// A CSV file, or standard input, with a header line: opened, checked, and read record by record. It
// may be compressed by gzip or zstd, which its first bytes tell.
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
#include "formats/decompressor.h"
#include "formats/input_file.h"

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
    // Separates the fields, as CsvParser takes it; none: found in the header (DelimiterFinder).
    std::optional<char> delimiter;
    // The file is in windows-1252 (formats/latin1.h): everything but its name is given in UTF-8.
    bool is_latin1 = false;
    // For files that grow. follow: at the end wait for more, as InputFile does, which a compressed
    // file and a pipe cannot. whole_lines: a last line without a line end is not read.
    bool follow = false;
    bool whole_lines = false;
  };

  // Opens `path` ("-" is standard input) and reads its header. Every error is one line that names
  // the file: not there, not readable, a directory, empty, UTF-16, in a format that is none of
  // these, damaged, a header that is malformed, is not UTF-8, or has an empty or a repeated name.
  // Names are trimmed of spaces and tabs.
  static StatusOr<std::unique_ptr<CsvFile>> Open(std::string path, Options options);
  static StatusOr<std::unique_ptr<CsvFile>> Open(std::string path) {
    return Open(std::move(path), Options());
  }
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  // The next record: true, and *record is it (look at record->ok(); its fields may be more or
  // fewer than the header's); false at the end; an error if reading fails. The record's views are
  // valid until the next call. The header is no record. (kDataLoss: the file became shorter, or
  // its compressed data are truncated or damaged, at the offset that the message says.)
  StatusOr<bool> Next(CsvRecord* record);

  // See InputFile.
  void set_while_waiting(std::function<Status()> while_waiting) {
    input_->set_while_waiting(std::move(while_waiting));
  }

  // The file's name in messages: its path, or "standard input".
  const std::string& name() const { return input_->name(); }
  bool is_stdin() const { return input_->is_stdin(); }
  const std::vector<std::string>& columns() const { return columns_; }
  char delimiter() const { return delimiter_; }
  std::optional<Compression> compression() const { return compression_; }

  // For a progress bar: bytes of the file up to the records returned so far, the header's included
  // (of one that is converted, by their part of the last block's text), and the size of the file
  // when it was opened (none for a pipe).
  uint64_t bytes_read() const;
  std::optional<uint64_t> total_bytes() const { return input_->total_bytes(); }

 private:
  CsvFile(std::unique_ptr<InputFile> input, const Options& options)
      : options_(options), input_(std::move(input)) {}

  Status FindCompression();
  Status FindDelimiter();
  Status ReadHeader();
  Status CheckHeader(const CsvRecord& header) const;
  Status ReadBlock();
  StatusOr<size_t> ReadText(std::span<char> room);
  StatusOr<size_t> ReadPlain(std::span<char> room);
  StatusOr<size_t> Decompress(std::span<char> room);
  uint64_t FilePosition() const { return input_->received_bytes() - unused_.size(); }

  Options options_;
  std::unique_ptr<InputFile> input_;
  std::optional<Compression> compression_;
  std::unique_ptr<Decompressor> decompressor_;  // if it is compressed
  std::string raw_;                             // bytes of the file, of which `unused_` is the end
  std::string_view unused_;
  std::string latin1_;        // scratch
  uint64_t text_end_ = 0;     // bytes that the parser has been given,
  uint64_t block_text_ = 0;   // those of the last block,
  uint64_t block_begin_ = 0;  // and where in the file that began
  bool ended_ = false;
  char delimiter_ = ',';
  CsvParser parser_;
  std::vector<std::string> columns_;
};

// The position of column `name` in `columns`. The error says that the file called `file` has no
// such column, which one may be meant, and which ones it has.
StatusOr<size_t> FindColumn(const std::vector<std::string>& columns, std::string_view name,
                            std::string_view file);

}  // namespace millrace
