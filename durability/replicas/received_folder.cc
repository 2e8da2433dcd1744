#include "durability/replicas/received_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/printable.h"
#include "base/private_file.h"

namespace millrace {
namespace {

// Into no other folder, whatever the other side says.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

Status SyncFolder(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return CannotWrite(folder, errno);
  const int result = fsync(file);
  const int error = errno;
  close(file);
  return result == 0 ? absl::OkStatus() : CannotWrite(folder, error);
}

}  // namespace

ReceivedFolder::ReceivedFolder(const std::string& folder)
    : folder_(folder), path_(folder + ".incoming") {}

StatusOr<std::unique_ptr<ReceivedFolder>> ReceivedFolder::Begin(const std::string& folder) {
  std::unique_ptr<ReceivedFolder> received(new ReceivedFolder(folder));
  std::error_code error;
  std::filesystem::remove_all(received->path_, error);
  if (!error) error = MakePrivateFolder(received->path_);
  if (error) return CannotWrite(received->path_, error.value());
  return received;
}

ReceivedFolder::~ReceivedFolder() {
  if (file_ >= 0) close(file_);
  std::error_code ignored;
  if (!committed_) std::filesystem::remove_all(path_, ignored);
}

Status ReceivedFolder::BeginFile(const std::string& name, uint64_t bytes) {
  return Note(OpenFile(name, bytes));
}

Status ReceivedFolder::Append(std::string_view bytes) { return Note(Write(bytes)); }

Status ReceivedFolder::EndFile(uint32_t crc32c) { return Note(CloseFile(crc32c)); }

Status ReceivedFolder::OpenFile(const std::string& name, uint64_t bytes) {
  if (file_ >= 0)
    return absl::DataLossError("the sender started a file before it ended the last one");
  if (!IsPlainName(name))
    return absl::DataLossError("the sender named a file that no store has: " + Printable(name));
  name_ = name;
  expected_ = bytes;
  written_ = 0;
  crc_ = 0;
  file_ = open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0 && errno == EEXIST)
    return absl::DataLossError("the sender sent the file " + name + " twice");
  if (file_ < 0) return CannotWrite(path_ + "/" + name, errno);
  return absl::OkStatus();
}

Status ReceivedFolder::Write(std::string_view bytes) {
  if (file_ < 0) return absl::DataLossError("the sender sent data before it named a file");
  crc_ = Crc32c(bytes, crc_);
  written_ += bytes.size();
  if (written_ > expected_) {
    return absl::DataLossError(name_ + " is longer than the " + std::to_string(expected_) +
                               " bytes that were announced");
  }
  while (!bytes.empty()) {
    const ssize_t count = write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotWrite(path_ + "/" + name_, errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

Status ReceivedFolder::CloseFile(uint32_t crc32c) {
  if (file_ < 0) return absl::DataLossError("the sender ended a file that it had not started");
  if (written_ != expected_ || crc_ != crc32c) {
    return absl::DataLossError(name_ + " is damaged: " + std::to_string(written_) + " of " +
                               std::to_string(expected_) + " bytes, CRC-32C " +
                               std::to_string(crc_) + " instead of " + std::to_string(crc32c));
  }
  const bool synced = fsync(file_) == 0;
  const int error = errno;
  const bool closed = close(file_) == 0;
  file_ = -1;
  if (!synced) return CannotWrite(path_ + "/" + name_, error);
  if (!closed) return CannotWrite(path_ + "/" + name_, errno);
  return absl::OkStatus();
}

Status ReceivedFolder::Commit() {
  MILLRACE_CHECK(!committed_ && !failed_);
  if (file_ >= 0)
    return absl::DataLossError(name_ +
                               " is incomplete: the sender ended the copy within this file");
  MILLRACE_RETURN_IF_ERROR(SyncFolder(path_));
  std::error_code error;
  std::filesystem::rename(path_, folder_, error);
  if (error) return CannotWrite(folder_, error.value());
  committed_ = true;
  const std::string parent = std::filesystem::path(folder_).parent_path();
  return SyncFolder(parent.empty() ? "." : parent);
}

}  // namespace millrace
