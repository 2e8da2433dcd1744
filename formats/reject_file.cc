#include "formats/reject_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "formats/csv_cell.h"

namespace millrace {
namespace {

constexpr std::string_view kHeader = "line,reason,row\n";

bool IsRejectFile(const std::string& path) {
  std::string start(kHeader.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), static_cast<std::streamsize>(start.size())) && start == kHeader;
}

}  // namespace

StatusOr<std::unique_ptr<RejectFile>> RejectFile::Create(std::string path,
                                                         const std::string& input) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const std::string advice = ": name another file with --reject-file";
  if (std::filesystem::exists(status)) {
    if (std::filesystem::equivalent(path, input, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rejected rows would overwrite the input ", path, advice));
    }
    if (std::filesystem::is_directory(status)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is a folder", advice));
    }
    if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, error) > 0 &&
        !IsRejectFile(path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " exists and is not a file of rejected rows; it is not overwritten", advice));
    }
  }
  return std::unique_ptr<RejectFile>(new RejectFile(std::move(path)));
}

RejectFile::~RejectFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!is_kept()) std::remove(temporary().c_str());
}

Status RejectFile::Add(const RejectedRow& row) {
  if (file_ == nullptr) {
    MILLRACE_RETURN_IF_ERROR(Open());
    MILLRACE_RETURN_IF_ERROR(Write(kHeader));
  }
  line_.clear();
  absl::StrAppend(&line_, row.line, ",");
  AppendQuotedCell(row.reason, &line_);
  line_ += ',';
  AppendQuotedCell(row.raw, &line_);
  line_ += '\n';
  return Write(line_);
}

// Raw rows are nobody else's to read, and an old file may have been made readable: it is replaced.
// What is no file (a pipe, /dev/null) is written to as it is.
Status RejectFile::Open() {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  special_ = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  const std::string path = is_kept() ? path_ : temporary();
  if (!special_) (void)unlink(path.c_str());
  const int flags = O_WRONLY | O_CLOEXEC | (special_ ? 0 : O_CREAT | O_EXCL);
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0) return CannotWrite();
  file_ = fdopen(fd, "wb");
  MILLRACE_CHECK(file_ != nullptr);
  return absl::OkStatus();
}

Status RejectFile::CannotWrite() const {
  return absl::UnavailableError(
      absl::StrCat("cannot write rejected rows to ", path_, ": ", std::strerror(errno)));
}

Status RejectFile::Write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return absl::OkStatus();
  return CannotWrite();
}

Status RejectFile::Flush() {
  if (file_ == nullptr || std::fflush(file_) == 0) return absl::OkStatus();
  return CannotWrite();
}

Status RejectFile::Finish() {
  finished_ = true;
  if (file_ != nullptr) return Flush();
  return accepted_ ? RemoveLeftover() : absl::OkStatus();
}

Status RejectFile::Accept() {
  if (std::exchange(accepted_, true)) return absl::OkStatus();
  if (file_ == nullptr) return finished_ ? RemoveLeftover() : absl::OkStatus();
  if (special_) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(Flush());
  return std::rename(temporary().c_str(), path_.c_str()) == 0 ? absl::OkStatus() : CannotWrite();
}

Status RejectFile::RemoveLeftover() {
  std::error_code error;
  if (std::filesystem::is_regular_file(path_, error) && IsRejectFile(path_)) {
    std::filesystem::remove(path_, error);  // a leftover tells of rows that are mended now
  }
  return absl::OkStatus();
}

std::string DefaultRejectPath(std::string_view input) {
  if (input == "-") return "stdin.rejects.csv";
  return std::filesystem::path(input).filename().string() + ".rejects.csv";
}

}  // namespace millrace
