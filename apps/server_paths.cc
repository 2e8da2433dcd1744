#include "apps/server_paths.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "apps/config_checks.h"
#include "durability/snapshots/snapshot_files.h"
#include "features/csv_format.h"
#include "formats/csv_file.h"
#include "server/all_weights.h"

namespace millrace {
namespace {

// That it can be read and has columns. A pipe can be read only once, and is not touched. (An input
// that is no good is no wrong usage, which InvalidArgument stands for.)
Status CheckTestFile(const std::string& path, const CsvFormat& format) {
  std::error_code ignored;
  if (path == "-" || std::filesystem::is_fifo(path, ignored)) return absl::OkStatus();
  CsvFile::Options options;
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(format, &options));
  const Status status = CsvFile::Open(path, options).status();
  return absl::IsInvalidArgument(status) ? absl::FailedPreconditionError(status.message()) : status;
}

}  // namespace

Status CheckServerPaths(const JobConfig& config) {
  const Server& server = config.server();
  if (server.has_snapshot_dir()) MILLRACE_RETURN_IF_ERROR(MakeSnapshotDir(server.snapshot_dir()));
  MILLRACE_RETURN_IF_ERROR(CheckDataDir(server.data_dir()));
  // The file to evaluate on is read when the producer has said how.
  if (server.has_test_file()) {
    MILLRACE_RETURN_IF_ERROR(CheckTestFile(server.test_file(), config.csv()));
  }
  // The process of shard 0 writes these; another one says that it ignores them.
  const auto& ids = server.server_ids();
  if (!ids.empty() && std::find(ids.begin(), ids.end(), 0u) == ids.end()) return absl::OkStatus();
  if (server.has_weights_file()) {
    MILLRACE_RETURN_IF_ERROR(CheckFolderExists(server.weights_file()));
  }
  // A log is not replaced: what is there (/dev/null) is written to.
  std::error_code ignored;
  const std::string& log = server.evaluation_log();
  const bool is_new =
      !std::filesystem::exists(log, ignored) || std::filesystem::is_directory(log, ignored);
  return server.has_evaluation_log() && is_new ? CheckFolderExists(log) : absl::OkStatus();
}

}  // namespace millrace
