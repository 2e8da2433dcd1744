// RUN-DIR, the folder of a job's processes on this machine.
//
//   job                          the job that it belongs to
//   logs/worker-2.log            what all incarnations of the process have written
//   logs/worker-2.log.old        what the earlier ones had, when that was kMostLogBytes
//   processes/worker-2/5/        an incarnation (incarnation_folder.h)
//   processes/worker-2/forgotten the incarnations before this one are over for good
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "launcher/incarnation_folder.h"
#include "messages/master.pb.h"

namespace millrace {

// A number as it is written: without a sign or leading zeros.
std::optional<uint64_t> ParseNumber(std::string_view text);

// RUN-DIR/logs/worker-2.log.
std::string ProcessLogPath(std::string_view run_dir, std::string_view process);

// A log of so many bytes becomes the old one when its process is started again.
inline constexpr int64_t kMostLogBytes = int64_t{16} << 20;

// An incarnation that has a folder.
struct KnownIncarnation {
  ProcessName process;
  std::string name;  // of the process
  uint64_t incarnation = 0;
};

// It stands for the path, and keeps nothing that is read from there. Errors are FileError's, and
// FailedPrecondition: a file is not what was written there, with the remedy. Not thread-safe.
class RunFolder {
 public:
  // Makes it, for its owner only, or checks that it belongs to this job. FailedPrecondition: it is
  // another job's, or its file system has no locks.
  static StatusOr<RunFolder> Open(const std::string& path, std::string_view job, uint64_t epoch);

  // What has the form of neither a process nor an incarnation is passed over.
  StatusOr<std::vector<KnownIncarnation>> List() const;
  IncarnationFolder Incarnation(const std::string& name, uint64_t incarnation) const;
  std::string LogPath(const std::string& name) const { return ProcessLogPath(path_, name); }

  // The first incarnation of the process that is not forgotten. It only goes up.
  StatusOr<uint64_t> FirstKept(const std::string& name) const;
  Status KeepFrom(const std::string& name, uint64_t first) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string ProcessPath(const std::string& name) const { return path_ + "/processes/" + name; }

  std::string path_;
};

// The same, for a shim, which knows the folder of its incarnation: whether it is forgotten.
StatusOr<bool> IsForgotten(const std::string& incarnation_path);

}  // namespace millrace
