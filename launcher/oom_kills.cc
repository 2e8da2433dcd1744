#include "launcher/oom_kills.h"

#include <sstream>
#include <vector>

#include "base/status.h"
#include "base/whole_file.h"

namespace millrace {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr const char* kEvents = "/memory.events.local";  // version 2
constexpr const char* kControl = "/memory.oom_control";  // version 1

// The files that may say so, the most exact first. In a container the control group may have
// another path than the one that is mounted; then its mount is the group's own.
std::vector<std::string> Candidates(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::vector<std::string> files;
  const StatusOr<std::string> groups = ReadWholeFile(root + "/proc/self/cgroup", kMostBytes);
  std::istringstream lines(groups.ok() ? *groups : "");
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/path", or "0::/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") files.push_back(mount + path + kEvents);
    if (controllers.find(",memory,") != std::string::npos) {
      files.push_back(mount + "/memory" + path + kControl);
    }
  }
  files.push_back(mount + kEvents);
  files.push_back(mount + "/memory" + kControl);
  files.push_back(root + "/proc/vmstat");
  return files;
}

// The number in the line "oom_kill N".
std::optional<uint64_t> CountIn(const std::string& path) {
  const StatusOr<std::string> text = ReadWholeFile(path, kMostBytes);
  std::istringstream lines(text.ok() ? *text : "");
  std::string name;
  for (uint64_t count = 0; lines >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> CountOomKills(const std::string& root) {
  for (const std::string& path : Candidates(root)) {
    if (const std::optional<uint64_t> count = CountIn(path)) return count;
  }
  return std::nullopt;
}

}  // namespace millrace
