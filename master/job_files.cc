#include "master/job_files.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/private_file.h"
#include "base/whole_file.h"

namespace millrace {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;
constexpr int kMostFiles = 1'000'000;
constexpr std::streamoff kTailBytes = 64 << 10;
constexpr size_t kLineBytes = 500;

// How its ProcessShim begins a line, behind the process's name.
std::string ShimBegin(uint64_t incarnation) {
  return absl::StrCat(", incarnation ", incarnation, ": ");
}

// The end of a log, fit for a terminal, without what earlier incarnations have written.
std::vector<std::string> LinesOf(const std::string& path, uint64_t incarnation) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::string text(static_cast<size_t>(std::min(size, kTailBytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::string begins = ShimBegin(incarnation) + "begins:";
  std::vector<std::string> lines;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (line.find(begins) != std::string::npos) lines.clear();
    lines.push_back(Printable(line, kLineBytes));
  }
  return lines;
}

}  // namespace

StatusOr<std::string> KeepJobFile(const std::string& run_dir, const std::string& group,
                                  const JobConfig& config) {
  const std::string folder = absl::StrCat(run_dir, "/config");
  if (const std::error_code error = MakePrivateFolder(folder)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " cannot be created: ", error.message(), " (--run-dir)"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, JobFileText(config));
  std::string newest;
  for (int number = 1; number < kMostFiles; ++number) {
    std::string path = absl::StrCat(folder, "/", group, "-", number, ".textproto");
    if (std::filesystem::exists(path)) {
      newest = path;
      continue;
    }
    if (!newest.empty()) {
      const StatusOr<std::string> before = ReadWholeFile(newest, kMostBytes);
      if (before.ok() && *before == text) return newest;
    }
    const Status written = WriteAtomicFile(path, text);
    // Another MasterApp of this job that begins at the same moment may be writing it.
    if (absl::IsFailedPrecondition(written)) continue;
    MILLRACE_RETURN_IF_ERROR(written);
    return path;
  }
  return absl::ResourceExhaustedError(absl::StrCat(folder, " has ", kMostFiles - 1, " files of ",
                                                   group,
                                                   ": remove the older ones when no process of "
                                                   "this job runs"));
}

StatusOr<std::string> JobFileText(const JobConfig& config) {
  std::string text;
  if (google::protobuf::TextFormat::PrintToString(config, &text)) return text;
  return absl::InternalError("the job's settings cannot be written as text");
}

std::string JobFileName(const std::string& group, const std::string& text) {
  return absl::StrCat(group, "-", absl::Hex(Mix64(Fnv1a64(text)), absl::kZeroPad16), ".textproto");
}

std::string LastLogLines(const std::string& path, uint64_t incarnation, int lines) {
  const std::vector<std::string> all = LinesOf(path, incarnation);
  const size_t begin = all.size() > static_cast<size_t>(lines) ? all.size() - lines : 0;
  return absl::StrJoin(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), "\n");
}

std::string LastWords(const std::string& path, uint64_t incarnation) {
  const std::string shim = ShimBegin(incarnation);
  std::vector<std::string> all = LinesOf(path, incarnation);
  while (!all.empty() && (all.back().empty() || all.back().find(shim) != std::string::npos)) {
    all.pop_back();
  }
  return all.empty() ? "" : all.back();
}

}  // namespace millrace
