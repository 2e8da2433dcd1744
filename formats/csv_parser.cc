#include "formats/csv_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "formats/byte_mask.h"

namespace millrace {
namespace {

constexpr size_t kBlock = 64;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

uint64_t FindSpecials(const char* block, char delimiter) {
  const auto special = static_cast<uint8_t>(delimiter);
  return ByteMask(block,
                  [special](Bytes16 c) { return (c == special) | (c == '"') | (c == '\n'); });
}

std::string_view WithoutCarriageReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

CsvParser::CsvParser(CsvLimits limits, char delimiter)
    : limits_(limits), delimiter_(delimiter), buffer_(kBlock) {
  MILLRACE_CHECK(delimiter != '"' && delimiter != '\n' && delimiter != '\r');
  MILLRACE_CHECK(static_cast<uint8_t>(delimiter) < 0x80);
  MILLRACE_CHECK(limits.max_record_bytes < UINT32_MAX);
  MILLRACE_CHECK(limits.max_fields > 0);
}

void CsvParser::Feed(std::string_view chunk) {
  if (chunk.empty()) return;
  std::memcpy(Prepare(chunk.size()).data(), chunk.data(), chunk.size());
  Commit(chunk.size());
}

std::span<char> CsvParser::Prepare(size_t size) {
  MILLRACE_CHECK(!finished_);
  // Moving what is left to the front only when it is the smaller part keeps the cost linear.
  if (size_t dead = record_begin_; dead > size_ - dead || dead == size_) {
    std::memmove(buffer_.data(), buffer_.data() + dead, size_ - dead);
    size_ -= dead;
    buffer_offset_ += dead;
    record_begin_ = 0;
    field_begin_ -= std::min(field_begin_, dead);
    quote_ -= std::min(quote_, dead);
    // The block may begin in the part that goes, but nothing there is still to be looked at.
    if (block_ < dead) {
      specials_ = specials_ == 0 ? 0 : specials_ >> (dead - block_);
      block_ = 0;
    } else {
      block_ -= dead;
    }
    block_end_ -= dead;
  }
  if (buffer_.size() < size_ + size + kBlock) buffer_.resize(size_ + size + kBlock);
  return {buffer_.data() + size_, size};
}

void CsvParser::Commit(size_t size) {
  MILLRACE_CHECK(size_ + size + kBlock <= buffer_.size());
  size_ += size;
}

void CsvParser::Finish() { finished_ = true; }

CsvParser::Event CsvParser::Next(CsvRecord* record) {
  if (state_ == State::kFileStart && !SkipByteOrderMark()) return Event::kNeedInput;
  if (state_ == State::kBadLine || state_ == State::kDiscard) {
    if (Event event = SkipBadLine(record); state_ != State::kField || event != Event::kEnd) {
      return event;
    }
  }
  while (true) {
    if (specials_ == 0) {
      if (block_end_ < size_) {
        LoadBlock();
        continue;
      }
      if (size_ - record_begin_ > limits_.max_record_bytes) return FailTooLong(record);
      return finished_ ? EndOfInput(record) : Event::kNeedInput;
    }
    const size_t at = block_ + static_cast<size_t>(std::countr_zero(specials_));
    specials_ &= specials_ - 1;
    if (at - record_begin_ > limits_.max_record_bytes) return FailTooLong(record);
    const char c = buffer_[at];

    if (state_ == State::kQuoted) {
      if (c == '"') {
        quote_ = at;
        state_ = State::kAfterQuote;
      } else if (c == '\n') {
        ++newlines_;
      }
      continue;
    }
    if (state_ == State::kAfterQuote) {
      if (c == '"' && at == quote_ + 1) {
        field_doubled_ = true;
        state_ = State::kQuoted;
        continue;
      }
      const bool closes =
          at == quote_ + 1 || (c == '\n' && at == quote_ + 2 && buffer_[quote_ + 1] == '\r');
      if (!closes) {
        return Fail(absl::StrCat("text after the closing quote of field ", spans_.size() + 1,
                                 " (a quote inside a quoted field is written twice)"),
                    record);
      }
      if (!AddField(field_begin_ + 1, quote_, field_doubled_)) return FailTooManyFields(record);
    } else {
      if (c == '"') {
        if (at == field_begin_) {
          state_ = State::kQuoted;
          field_doubled_ = false;
        }
        continue;
      }
      if (c == '\n' && IsEmptyLine(at)) {
        ++line_;
        StartRecord(at + 1);
        continue;
      }
      const bool carriage_return = c == '\n' && at > field_begin_ && buffer_[at - 1] == '\r';
      const size_t end = carriage_return ? at - 1 : at;
      if (!AddField(field_begin_, end, false)) return FailTooManyFields(record);
    }
    if (c == '\n') {
      Emit(at, record);
      line_ += ++newlines_;
      StartRecord(at + 1);
      return Event::kRecord;
    }
    field_begin_ = at + 1;
    state_ = State::kField;
  }
}

bool CsvParser::SkipByteOrderMark() {
  const std::string_view start(buffer_.data(), std::min(size_, kByteOrderMark.size()));
  if (!finished_ && start.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(start)) {
    return false;
  }
  block_end_ = start == kByteOrderMark ? start.size() : 0;
  StartRecord(block_end_);
  return true;
}

void CsvParser::LoadBlock() {
  block_ = block_end_;
  const size_t size = std::min(kBlock, size_ - block_);
  specials_ = FindSpecials(buffer_.data() + block_, delimiter_);
  if (size < kBlock) specials_ &= (uint64_t{1} << size) - 1;
  block_end_ = block_ + size;
}

void CsvParser::StartRecord(size_t begin) {
  record_begin_ = begin;
  field_begin_ = begin;
  newlines_ = 0;
  spans_.clear();
  state_ = State::kField;
}

bool CsvParser::AddField(size_t begin, size_t end, bool doubled) {
  if (spans_.size() == limits_.max_fields) return false;
  spans_.push_back({static_cast<uint32_t>(begin - record_begin_),
                    static_cast<uint32_t>(end - record_begin_), doubled});
  return true;
}

bool CsvParser::IsEmptyLine(size_t end) const {
  return end == record_begin_ || (end == record_begin_ + 1 && buffer_[record_begin_] == '\r');
}

void CsvParser::Emit(size_t end, CsvRecord* record) {
  const char* begin = buffer_.data() + record_begin_;
  record->raw = WithoutCarriageReturn({begin, end - record_begin_});
  record->line = line_;
  record->offset = consumed();
  record->error.clear();
  record->fields.resize(spans_.size());
  char* out = nullptr;
  for (size_t i = 0; i < spans_.size(); ++i) {
    const Span& span = spans_[i];
    record->fields[i] = {begin + span.begin, span.end - span.begin};
    if (span.doubled) record->fields[i] = Unescape(record->fields[i], &out);
  }
}

// All fields of a record are shorter than it: with that room the earlier views stay valid.
std::string_view CsvParser::Unescape(std::string_view field, char** out) {
  if (*out == nullptr) {
    const size_t room = block_end_ - record_begin_;
    if (unescaped_.size() < room) unescaped_.resize(room);
    *out = unescaped_.data();
  }
  char* begin = *out;
  while (!field.empty()) {
    const void* quote = std::memchr(field.data(), '"', field.size());
    const size_t size =
        quote == nullptr ? field.size()
                         : static_cast<size_t>(static_cast<const char*>(quote) - field.data()) + 1;
    std::memcpy(*out, field.data(), size);
    *out += size;
    field.remove_prefix(std::min(field.size(), quote == nullptr ? size : size + 1));
  }
  return {begin, static_cast<size_t>(*out - begin)};
}

CsvParser::Event CsvParser::EndOfInput(CsvRecord* record) {
  if (state_ == State::kQuoted) {
    return Fail(absl::StrCat("field ", spans_.size() + 1, " opens a quote that is never closed"),
                record);
  }
  const bool carriage_return = size_ > field_begin_ && buffer_[size_ - 1] == '\r';
  bool added;
  if (state_ == State::kAfterQuote) {
    if (quote_ + 1 != (carriage_return ? size_ - 1 : size_)) {
      return Fail(absl::StrCat("text after the closing quote of field ", spans_.size() + 1,
                               " (a quote inside a quoted field is written twice)"),
                  record);
    }
    added = AddField(field_begin_ + 1, quote_, field_doubled_);
  } else {
    if (IsEmptyLine(size_)) return Event::kEnd;
    added = AddField(field_begin_, carriage_return ? size_ - 1 : size_, false);
  }
  if (!added) return FailTooManyFields(record);
  Emit(size_, record);
  StartRecord(size_);
  return Event::kRecord;
}

CsvParser::Event CsvParser::Fail(std::string reason, CsvRecord* record) {
  reason_ = std::move(reason);
  state_ = State::kBadLine;
  specials_ = 0;
  block_end_ = record_begin_;
  return SkipBadLine(record);
}

CsvParser::Event CsvParser::FailTooManyFields(CsvRecord* record) {
  return Fail(absl::StrCat("more than ", limits_.max_fields, " fields"), record);
}

CsvParser::Event CsvParser::FailTooLong(CsvRecord* record) {
  std::string reason = absl::StrCat("longer than ", limits_.max_record_bytes, " bytes");
  if (state_ == State::kQuoted) {
    absl::StrAppend(&reason, ": is the quote that field ", spans_.size() + 1, " opens not closed?");
  }
  return Fail(std::move(reason), record);
}

// Leaves kField as the state, and kEnd as the event, when a discarded line has ended: then the
// caller goes on with the next record.
CsvParser::Event CsvParser::SkipBadLine(CsvRecord* record) {
  const char* data = buffer_.data();
  const void* found =
      block_end_ < size_ ? std::memchr(data + block_end_, '\n', size_ - block_end_) : nullptr;
  const size_t end =
      found == nullptr ? size_ : static_cast<size_t>(static_cast<const char*>(found) - data);
  const bool known = found != nullptr || finished_;
  const size_t next = found == nullptr ? size_ : end + 1;
  if (state_ == State::kDiscard) {
    record_begin_ = block_end_ = next;
    if (!known) return Event::kNeedInput;
    ++line_;
    StartRecord(next);
    return Event::kEnd;
  }
  if (end - record_begin_ > limits_.max_record_bytes && !known) {
    EmitBadLine(record_begin_ + limits_.max_record_bytes, record);
    record_begin_ = block_end_ = size_;
    state_ = State::kDiscard;
    return Event::kRecord;
  }
  if (!known) {
    block_end_ = size_;
    return Event::kNeedInput;
  }
  EmitBadLine(std::min(end, record_begin_ + limits_.max_record_bytes), record);
  ++line_;
  block_end_ = next;
  StartRecord(next);
  return Event::kRecord;
}

void CsvParser::EmitBadLine(size_t end, CsvRecord* record) {
  record->fields.clear();
  record->line = line_;
  record->offset = consumed();
  record->raw = WithoutCarriageReturn({buffer_.data() + record_begin_, end - record_begin_});
  record->error = std::move(reason_);
}

}  // namespace millrace
