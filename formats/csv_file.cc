#include "formats/csv_file.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/did_you_mean.h"
#include "base/utf8.h"
#include "formats/csv_dialect.h"
#include "formats/latin1.h"

namespace millrace {
namespace {

constexpr size_t kShownColumns = 50;
constexpr size_t kLongestCompared = 100;  // bytes of a name

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Escaped as in C, and cut.
std::string FirstInvalidName(const CsvRecord& header) {
  constexpr size_t kShownBytes = 60;
  for (const std::string_view field : header.fields) {
    if (IsValidUtf8(field)) continue;
    const std::string_view shown = Trim(field).substr(0, kShownBytes);
    return absl::CEscape(absl::string_view(shown.data(), shown.size()));
  }
  return "";
}

// What else people call a table, by its first bytes: what is wrong with it, and the remedy.
std::string WhyNoText(std::string_view start) {
  struct Format {
    std::string_view magic;
    const char* advice;
  };
  static constexpr Format kFormats[] = {
      {"PK\x03\x04",
       "is a zip archive or a workbook of a spreadsheet program: unpack it, or save it as CSV"},
      {{"\xFD\x37zXZ\x00", 6},
       "is compressed by xz: unpack it, or give it by a pipe, as xz -dc FILE writes it"},
      {"BZh91AY&SY",
       "is compressed by bzip2: unpack it, or give it by a pipe, as bzip2 -dc FILE writes it"},
      {"PAR1\x15", "is a Parquet file: convert it to CSV"},
      {"\xD0\xCF\x11\xE0", "is a workbook of a spreadsheet program: save it as CSV"},
  };
  for (const Format& format : kFormats) {
    if (start.starts_with(format.magic)) return format.advice;
  }
  return "";
}

}  // namespace

CsvFile::~CsvFile() = default;

StatusOr<std::unique_ptr<CsvFile>> CsvFile::Open(std::string path, Options options) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<InputFile> input,
      InputFile::Open(std::move(path), {.stop = options.stop, .follow = options.follow}));
  std::unique_ptr<CsvFile> file(new CsvFile(std::move(input), options));
  MILLRACE_RETURN_IF_ERROR(file->FindCompression());
  MILLRACE_RETURN_IF_ERROR(file->FindDelimiter());
  MILLRACE_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

Status CsvFile::FindCompression() {
  if (options_.follow && !total_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(),
                     " is no file that grows, but read until its writer ends: leave out "
                     "--follow"));
  }
  if (options_.follow && *total_bytes() == 0) return absl::OkStatus();  // the header will come
  constexpr size_t kLongestMagic = 16;
  raw_.resize(std::max(options_.block_bytes, kLongestMagic));
  size_t size = 0;
  for (bool needs_more = true; needs_more && size < raw_.size();) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t read, input_->Read(std::span(raw_).subspan(size)));
    if (read == 0) break;
    size += read;
    compression_ = CompressionOf({raw_.data(), size}, &needs_more);
  }
  unused_ = {raw_.data(), size};
  if (const std::string why = WhyNoText(unused_); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name(), " ", why));
  }
  if (!compression_) return absl::OkStatus();
  if (options_.follow) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), " is compressed, and cannot be followed: follow the file that its writer writes"));
  }
  decompressor_ = Decompressor::Create(*compression_);
  return absl::OkStatus();
}

Status CsvFile::FindDelimiter() {
  std::string head;
  if (options_.delimiter) {
    delimiter_ = *options_.delimiter;
  } else {
    DelimiterFinder finder;
    for (bool found = false; !found && head.size() <= options_.limits.max_record_bytes;) {
      const size_t known = head.size();
      head.resize(known + options_.block_bytes * kMostUtf8OfLatin1);
      MILLRACE_ASSIGN_OR_RETURN(const size_t size, ReadText(std::span(head).subspan(known)));
      head.resize(known + size);
      found = finder.Feed(std::string_view(head).substr(known));
      if (size == 0) break;
    }
    delimiter_ = finder.delimiter();
  }
  parser_ = CsvParser(options_.limits, delimiter_);
  parser_.Feed(head);
  text_end_ = block_text_ = head.size();
  return absl::OkStatus();
}

Status CsvFile::ReadHeader() {
  CsvRecord header;
  MILLRACE_ASSIGN_OR_RETURN(bool found, Next(&header));
  // A line "sep=;" before the header is for spreadsheet programs.
  const std::string line_of_delimiter = absl::StrCat("sep=", std::string(1, delimiter_));
  if (found && header.raw == line_of_delimiter) {
    MILLRACE_ASSIGN_OR_RETURN(found, Next(&header));
  }
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " is empty: a header line with the columns' names is needed"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckHeader(header));
  const std::string place = absl::StrCat(name(), ":", header.line, ": ");
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    std::string column(Trim(header.fields[i]));
    if (column.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, "column ", i + 1, " has no name in the header"));
    }
    if (!seen.insert(column).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, "two columns are called \"", column, "\": rename one"));
    }
    columns_.push_back(std::move(column));
  }
  return absl::OkStatus();
}

Status CsvFile::CheckHeader(const CsvRecord& header) const {
  const std::string_view utf16[] = {"\xFF\xFE", "\xFE\xFF", "\xC3\xBF\xC3\xBE",
                                    "\xC3\xBE\xC3\xBF"};  // the latter as if in latin-1
  for (const std::string_view mark : utf16) {
    if (!header.raw.starts_with(mark)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " is in UTF-16: convert it to UTF-8, as by iconv -f utf-16 -t utf-8"));
  }
  // The byte order mark of UTF-8 as if it were latin-1.
  if (options_.is_latin1 && header.raw.starts_with("\xC3\xAF\xC2\xBB\xC2\xBF")) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), " starts with the byte order mark of UTF-8: leave out --encoding latin1"));
  }
  const std::string place = absl::StrCat(name(), ":", header.line, ": ");
  if (!header.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(place, "the header: ", header.error));
  }
  if (header.raw.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "the header holds a zero byte, so this is no CSV, or one in UTF-16; if the latter, ",
        "convert it to UTF-8, as by iconv -f utf-16le -t utf-8"));
  }
  if (!IsValidUtf8(header.raw)) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "the header is not valid UTF-8: a column has the name \"", FirstInvalidName(header),
        "\"; if the file is in latin-1 (windows-1252), give --encoding latin1, else convert it"));
  }
  if (header.raw.find('\r') != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "the header holds a carriage return; if lines end in carriage returns alone, ",
        "convert them, as by tr '\\r' '\\n'"));
  }
  return absl::OkStatus();
}

StatusOr<bool> CsvFile::Next(CsvRecord* record) {
  while (true) {
    switch (parser_.Next(record)) {
      case CsvParser::Event::kRecord:
        return true;
      case CsvParser::Event::kEnd:
        return false;
      case CsvParser::Event::kNeedInput:
        if (ended_ && options_.whole_lines) return false;
        MILLRACE_RETURN_IF_ERROR(ReadBlock());
    }
  }
}

Status CsvFile::ReadBlock() {
  const size_t room = options_.block_bytes * (options_.is_latin1 ? kMostUtf8OfLatin1 : 1);
  block_begin_ = FilePosition();
  MILLRACE_ASSIGN_OR_RETURN(const size_t size, ReadText(parser_.Prepare(room)));
  block_text_ = size;
  text_end_ += size;
  if (size > 0) {
    parser_.Commit(size);
    return absl::OkStatus();
  }
  ended_ = true;
  if (!options_.whole_lines) parser_.Finish();
  return absl::OkStatus();
}

// As the parser takes it; 0: the end.
StatusOr<size_t> CsvFile::ReadText(std::span<char> room) {
  if (!options_.is_latin1) return ReadPlain(room);
  latin1_.resize(room.size() / kMostUtf8OfLatin1);
  MILLRACE_ASSIGN_OR_RETURN(const size_t size, ReadPlain(latin1_));
  return Latin1ToUtf8(std::string_view(latin1_).substr(0, size), room);
}

StatusOr<size_t> CsvFile::ReadPlain(std::span<char> room) {
  if (decompressor_) return Decompress(room);
  if (unused_.empty()) return input_->Read(room);
  const size_t size = unused_.copy(room.data(), room.size());
  unused_.remove_prefix(size);
  return size;
}

StatusOr<size_t> CsvFile::Decompress(std::span<char> room) {
  while (true) {
    const StatusOr<size_t> size = decompressor_->Run(&unused_, room);
    const std::string kind(NameOf(*compression_));
    if (absl::IsResourceExhausted(size.status())) {
      return absl::FailedPreconditionError(absl::StrCat(
          name(),
          " needs too much memory: it was compressed by zstd --long. Give it by a pipe, as ",
          "zstd -dc --long=31 FILE writes it"));
    }
    if (!size.ok()) {
      return absl::DataLossError(
          absl::StrCat(name(), ": its ", kind, " data are damaged before byte ",
                       input_->received_bytes() - unused_.size(), ": ", size.status().message(),
                       ". Restore the file and start again"));
    }
    if (*size > 0) return *size;
    MILLRACE_ASSIGN_OR_RETURN(const size_t read, input_->Read(raw_));
    unused_ = {raw_.data(), read};
    if (read > 0) continue;
    if (decompressor_->is_complete()) return size_t{0};
    return absl::DataLossError(
        absl::StrCat(name(), " is truncated: its ", kind, " data have no end after byte ",
                     input_->received_bytes(), ". Restore the file and start again"));
  }
}

uint64_t CsvFile::bytes_read() const {
  if (!decompressor_ && !options_.is_latin1) return parser_.consumed();
  const uint64_t left = std::min(text_end_ - parser_.consumed(), block_text_);
  if (left == 0) return FilePosition();
  const double part = static_cast<double>(left) / static_cast<double>(block_text_);
  const auto block = static_cast<double>(FilePosition() - block_begin_);
  return FilePosition() - static_cast<uint64_t>(part * block);
}

namespace {

std::optional<std::string> NearestColumn(const std::vector<std::string>& columns,
                                         std::string_view name) {
  if (name.size() > kLongestCompared) return std::nullopt;
  std::vector<std::string> compared;
  for (const std::string& column : columns) {
    if (column.size() <= kLongestCompared) compared.push_back(column);
  }
  return NearestWord(std::string(name), compared);
}

}  // namespace

StatusOr<size_t> FindColumn(const std::vector<std::string>& columns, std::string_view name,
                            std::string_view file) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == name) return i;
  }
  const std::optional<std::string> near = NearestColumn(columns, name);
  std::string listed = absl::StrJoin(
      columns.begin(),
      columns.begin() + static_cast<ptrdiff_t>(std::min(columns.size(), kShownColumns)), ", ");
  if (columns.size() > kShownColumns) {
    absl::StrAppend(&listed, " and ", columns.size() - kShownColumns, " more");
  }
  return absl::NotFoundError(absl::StrCat(
      Absl(file), " has no column \"", Absl(name), "\"; ",
      near ? absl::StrCat("did you mean \"", *near, "\"? Its") : "its", " columns are: ", listed));
}

}  // namespace millrace
