// An incremental RFC 4180 parser: bytes go in by chunks of any size, records come out. No I/O.
//
// What it accepts, where RFC 4180 leaves a choice or real files differ from it:
//  - Lines end in LF or CRLF; the last one need not end. A carriage return elsewhere is data.
//  - A UTF-8 byte order mark at the very start is skipped.
//  - Commas separate fields, or another delimiter.
//  - A field is quoted if its first byte is a quote. In a quoted field delimiters and line ends are
//    data and a doubled quote is one quote. A quote inside an unquoted field is data (5" pipe), as
//    in Python's csv module; spaces are always data.
//  - An empty line is no record, in a file of one column too: an empty value is written as "".
//
// What it refuses: text after a closing quote, a quote that is never closed, and records beyond
// the limits. The error belongs to that record; the parser continues with the *second* physical
// line of it, even where the error shows much later: a stray quote costs one line, not all lines
// down to the next quote. No input makes it crash, look at a byte more than a few times, or keep
// more than about twice `max_record_bytes`, `max_fields` spans, and a chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct CsvLimits {
  size_t max_record_bytes = size_t{16} << 20;  // of its text in the file, to its line feed
  size_t max_fields = size_t{1} << 16;
};

// A record, or the reason why there is none. The views point into the parser and are valid until
// the next call of any of its non-const functions. Reuse one object: it then allocates nothing.
struct CsvRecord {
  std::vector<std::string_view> fields;  // without their quotes; empty for a malformed record
  uint64_t line = 0;                     // physical line where the record starts, from 1
  uint64_t offset = 0;   // of its first byte in the input, a byte order mark counted
  std::string_view raw;  // as in the input, quotes and all, without the line end;
                         // of a malformed record the first line of it
  std::string error;     // why the record is malformed; empty: it is well formed

  bool ok() const { return error.empty(); }
};

// Not thread-safe.
class CsvParser {
 public:
  enum class Event {
    kRecord,     // *record is the next one; look at record->ok()
    kNeedInput,  // Feed() more, or Finish()
    kEnd,        // after Finish(): there are no more
  };

  // `delimiter` separates the fields: an ASCII character, and no quote, line feed or carriage
  // return.
  explicit CsvParser(CsvLimits limits = {}, char delimiter = ',');

  // Takes bytes, by copy. Best called only when Next() asks for input: what has not been parsed is
  // kept in memory.
  void Feed(std::string_view chunk);

  // The same without a copy: write into the span, which has room for at least `size` bytes, and
  // then Commit() the number of bytes that were written.
  std::span<char> Prepare(size_t size);
  void Commit(size_t size);

  // No more input will come.
  void Finish();

  Event Next(CsvRecord* record);

  // Bytes of the input that came before the next record.
  uint64_t consumed() const { return buffer_offset_ + record_begin_; }

  // Bytes that are kept: those of the next record and of what was fed after it, and of records
  // already returned that have not made room yet.
  size_t buffered() const { return size_; }

 private:
  enum class State : uint8_t {
    kFileStart,   // a byte order mark may come
    kField,       // in an unquoted field, or before the first byte of any
    kQuoted,      // in a quoted field
    kAfterQuote,  // after a quote in a quoted field: half of a doubled one, or the closing one
    kBadLine,     // looking for the end of a malformed record's first line
    kDiscard,     // the same, but its error has been given: the line is too long to keep
  };

  // The content of a field of the current record, as positions from the record's start.
  struct Span {
    uint32_t begin;
    uint32_t end;
    bool doubled;  // has doubled quotes
  };

  bool SkipByteOrderMark();
  void LoadBlock();
  void StartRecord(size_t begin);
  bool AddField(size_t begin, size_t end, bool doubled);
  bool IsEmptyLine(size_t end) const;
  void Emit(size_t end, CsvRecord* record);
  std::string_view Unescape(std::string_view field, char** out);
  Event EndOfInput(CsvRecord* record);
  Event Fail(std::string reason, CsvRecord* record);
  Event FailTooManyFields(CsvRecord* record);
  Event FailTooLong(CsvRecord* record);
  Event SkipBadLine(CsvRecord* record);
  void EmitBadLine(size_t end, CsvRecord* record);

  CsvLimits limits_;
  char delimiter_;
  std::vector<char> buffer_;  // [0, size_) is input, then room, and padding for whole blocks
  size_t size_ = 0;
  uint64_t buffer_offset_ = 0;  // of buffer_[0] in the input
  bool finished_ = false;

  // Delimiters, quotes and line feeds of [block_, block_end_) that are still to be looked at, a bit
  // each. All before block_end_ has been looked at or is in `specials_`.
  size_t block_ = 0;
  size_t block_end_ = 0;
  uint64_t specials_ = 0;

  // The record being parsed. Positions are in buffer_.
  State state_ = State::kFileStart;
  size_t record_begin_ = 0;
  size_t field_begin_ = 0;
  size_t quote_ = 0;            // in kAfterQuote, the quote
  bool field_doubled_ = false;  // the quoted field has doubled quotes
  uint64_t line_ = 1;           // where the record starts
  uint64_t newlines_ = 0;       // inside the record
  std::vector<Span> spans_;     // of the fields that are complete
  std::string reason_;          // in kBadLine, the error to give

  std::string unescaped_;  // the fields of the current record that had doubled quotes
};

}  // namespace millrace
