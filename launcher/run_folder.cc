#include "launcher/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/printable.h"
#include "base/private_file.h"
#include "base/whole_file.h"
#include "launcher/descriptor.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForgotten = "/forgotten";
constexpr size_t kMostBytesOfFile = 4096;

Status MakeFolder(const std::string& path) {
  const std::error_code error = MakePrivateFolder(path);
  return error ? CannotWrite(path, error.value()) : absl::OkStatus();
}

// Waits for another process that opens the same folder. It also shows that the file system knows
// locks, on which everything here relies.
StatusOr<Descriptor> LockFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return CannotWrite(path, errno);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  int result = -1;
  do {
    result = fcntl(file.number(), F_SETLKW, &lock);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return file;
  return absl::FailedPreconditionError(path + " cannot be locked: " + std::strerror(errno) +
                                       "; choose a --run-dir on a disk of this machine");
}

// The names in a folder; none if it is not there.
StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  // A folder that has just been removed, and a file that has no names in it, are no errors.
  if (!error || error == std::errc::no_such_file_or_directory ||
      error == std::errc::not_a_directory) {
    return names;
  }
  return FileError(path + " cannot be read: " + error.message(), error.value());
}

StatusOr<uint64_t> ReadForgotten(const std::string& process_path) {
  const std::string path = process_path + kForgotten;
  const StatusOr<std::string> text = ReadWholeFile(path, kMostBytesOfFile);
  if (absl::IsNotFound(text.status())) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return 0;
  }
  std::optional<uint64_t> first;
  if (text.ok() && text->ends_with('\n')) first = ParseNumber(text->substr(0, text->size() - 1));
  if (first) return *first;
  return absl::FailedPreconditionError(
      path + " is not as it was written; remove it when no process of this job runs");
}

}  // namespace

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || std::to_string(number) != text) return std::nullopt;
  return number;
}

std::string ProcessLogPath(std::string_view run_dir, std::string_view process) {
  return std::string(run_dir) + "/logs/" + std::string(process) + ".log";
}

StatusOr<RunFolder> RunFolder::Open(const std::string& path, std::string_view job, uint64_t epoch) {
  MILLRACE_RETURN_IF_ERROR(MakeFolder(path + "/logs"));
  MILLRACE_RETURN_IF_ERROR(MakeFolder(path + "/processes"));
  MILLRACE_ASSIGN_OR_RETURN(const Descriptor lock, LockFile(path + "/job.lock"));
  const std::string owner = std::string(job) + " " + std::to_string(epoch) + "\n";
  const std::string file = path + "/job";
  const StatusOr<std::string> there = ReadWholeFile(file, kMostBytesOfFile);
  std::error_code error;
  if (absl::IsNotFound(there.status()) && !fs::exists(file, error)) {
    MILLRACE_RETURN_IF_ERROR(WriteAtomicFile(file, owner));
  } else if (!there.ok()) {
    return absl::FailedPreconditionError(file +
                                         " cannot be read: " + std::string(TextOf(there.status())) +
                                         "; let this user read it, or choose another --run-dir");
  } else if (*there != owner) {
    return absl::FailedPreconditionError(
        path + " belongs to the job and epoch \"" + Printable(there->substr(0, there->find('\n'))) +
        "\" (its file job), not to \"" + owner.substr(0, owner.size() - 1) +
        "\"; choose another --run-dir, or remove this one when none of its processes runs");
  }
  return RunFolder(path);
}

StatusOr<std::vector<KnownIncarnation>> RunFolder::List() const {
  std::vector<KnownIncarnation> found;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path_ + "/processes"));
  for (const std::string& name : names) {
    const StatusOr<ProcessName> process = ParseProcessName(name);
    if (!process.ok()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> numbers, NamesIn(ProcessPath(name)));
    for (const std::string& number : numbers) {
      const std::optional<uint64_t> incarnation = ParseNumber(number);
      if (incarnation) found.push_back({*process, name, *incarnation});
    }
  }
  return found;
}

IncarnationFolder RunFolder::Incarnation(const std::string& name, uint64_t incarnation) const {
  return IncarnationFolder(ProcessPath(name) + "/" + std::to_string(incarnation));
}

StatusOr<uint64_t> RunFolder::FirstKept(const std::string& name) const {
  return ReadForgotten(ProcessPath(name));
}

Status RunFolder::KeepFrom(const std::string& name, uint64_t first) const {
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t kept, FirstKept(name));
  if (kept >= first) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(MakeFolder(ProcessPath(name)));
  return WriteAtomicFile(ProcessPath(name) + kForgotten, std::to_string(first) + "\n");
}

StatusOr<bool> IsForgotten(const std::string& incarnation_path) {
  const fs::path path(incarnation_path);
  const std::optional<uint64_t> incarnation = ParseNumber(path.filename().string());
  if (!incarnation) {
    return absl::InvalidArgumentError(incarnation_path + " is the folder of no incarnation");
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t first, ReadForgotten(path.parent_path().string()));
  return *incarnation < first;
}

}  // namespace millrace
