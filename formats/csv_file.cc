#include "formats/csv_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/did_you_mean.h"
#include "formats/utf8.h"

namespace millrace {
namespace {

// How long a silent pipe is waited for before its owner is called again.
constexpr int kFirstWaitMilliseconds = 5;
constexpr int kWaitMilliseconds = 100;
constexpr size_t kShownColumns = 50;
constexpr size_t kLongestCompared = 100;  // bytes of a name

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

Status CannotDo(int error, std::string_view name, std::string_view what) {
  const std::string message =
      absl::StrCat("cannot ", Absl(what), " ", Absl(name), ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

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

}  // namespace

CsvFile::CsvFile(std::string name, int fd, bool is_stdin, const Options& options)
    : name_(std::move(name)),
      fd_(fd),
      is_stdin_(is_stdin),
      options_(options),
      parser_(options.limits) {}

CsvFile::~CsvFile() {
  if (!is_stdin_) close(fd_);
}

StatusOr<std::unique_ptr<CsvFile>> CsvFile::Open(std::string path, Options options) {
  const bool is_stdin = path == "-";
  std::string name = is_stdin ? "standard input" : std::move(path);
  // A named pipe that nobody writes to yet must not hold us here, where a stop would go unseen.
  const int fd = is_stdin ? STDIN_FILENO : open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotDo(errno, name, "open");
  std::unique_ptr<CsvFile> file(new CsvFile(std::move(name), fd, is_stdin, options));
  struct stat info;
  if (fstat(fd, &info) != 0) return CannotDo(errno, file->name_, "read");
  if (S_ISDIR(info.st_mode)) return CannotDo(EISDIR, file->name_, "read");
  file->pollable_ = !S_ISREG(info.st_mode);
  if (S_ISREG(info.st_mode)) file->total_bytes_ = static_cast<uint64_t>(info.st_size);
  MILLRACE_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

Status CsvFile::ReadHeader() {
  CsvRecord header;
  MILLRACE_ASSIGN_OR_RETURN(const bool found, Next(&header));
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " is empty: a header line with the columns' names is needed"));
  }
  if (header.raw.starts_with("\xFF\xFE") || header.raw.starts_with("\xFE\xFF")) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " is in UTF-16: convert it to UTF-8, as by iconv -f utf-16 -t utf-8"));
  }
  const std::string place = absl::StrCat(name_, ":", header.line, ": ");
  if (!header.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(place, "the header: ", header.error));
  }
  if (!IsValidUtf8(header.raw)) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "the header is not valid UTF-8: a column has the name \"", FirstInvalidName(header),
        "\"; convert the file, as by ", "iconv -f latin1 -t utf-8"));
  }
  if (header.raw.find('\r') != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "the header holds a carriage return; if lines end in carriage returns alone, ",
        "convert them, as by tr '\\r' '\\n'"));
  }
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

StatusOr<bool> CsvFile::Next(CsvRecord* record) {
  while (true) {
    switch (parser_.Next(record)) {
      case CsvParser::Event::kRecord:
        return true;
      case CsvParser::Event::kEnd:
        return false;
      case CsvParser::Event::kNeedInput:
        MILLRACE_RETURN_IF_ERROR(ReadBlock());
    }
  }
}

Status CsvFile::ReadBlock() {
  while (true) {
    if (pollable_) MILLRACE_RETURN_IF_ERROR(WaitReadable());
    const std::span<char> block = parser_.Prepare(options_.block_bytes);
    const ssize_t size = read(fd_, block.data(), block.size());
    if (size > 0) {
      parser_.Commit(static_cast<size_t>(size));
      received_bytes_ += static_cast<uint64_t>(size);
      return absl::OkStatus();
    }
    if (size == 0) {
      // What it holds now is not what it held; its last record may have lost its end.
      if (received_bytes_ < total_bytes_.value_or(0)) {
        return absl::DataLossError(absl::StrCat(name_, " became shorter while it was read: it had ",
                                                *total_bytes_, " bytes, and ends after ",
                                                received_bytes_, ". Restore it and start again"));
      }
      parser_.Finish();
      return absl::OkStatus();
    }
    if (errno != EINTR && errno != EAGAIN) return CannotDo(errno, name_, "read");
  }
}

Status CsvFile::WaitReadable() {
  for (int timeout = 0;; timeout = timeout == 0 ? kFirstWaitMilliseconds : kWaitMilliseconds) {
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      return absl::CancelledError(absl::StrCat("stopped while reading ", name_));
    }
    pollfd poll_fd = {fd_, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, timeout);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return CannotDo(errno, name_, "read");
    if (while_waiting_) MILLRACE_RETURN_IF_ERROR(while_waiting_());
  }
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
