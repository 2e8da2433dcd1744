#include "launcher/running_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/status.h"
#include "base/whole_file.h"

extern "C" {  // glibc 2.36 does not say so itself
#include <sys/pidfd.h>
}

namespace millrace {
namespace {

constexpr size_t kMostStatBytes = 1 << 16;

struct ProcessStat {
  char state = 0;
  pid_t parent = 0;
  uint64_t start_ticks = 0;
};

// See proc(5). The program's name stands in parentheses, which may be in it, too.
std::optional<ProcessStat> StatOf(pid_t pid) {
  const StatusOr<std::string> text =
      ReadWholeFile("/proc/" + std::to_string(pid) + "/stat", kMostStatBytes);
  if (!text.ok()) return std::nullopt;
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  constexpr int kBetween = 17;  // fields 5 to 21
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> stat.start_ticks;
  if (fields.fail()) return std::nullopt;
  return stat;
}

std::string BootId() {
  const StatusOr<std::string> text =
      ReadWholeFile("/proc/sys/kernel/random/boot_id", kMostStatBytes);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace

std::optional<ProcessIdentity> IdentityOf(pid_t pid) {
  const std::optional<ProcessStat> stat = StatOf(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return ProcessIdentity{pid, stat->start_ticks, BootId()};
}

Descriptor OpenProcess(pid_t pid) { return Descriptor(pid > 0 ? pidfd_open(pid, 0) : -1); }

Descriptor OpenProcess(const ProcessIdentity& identity) {
  Descriptor process = OpenProcess(identity.pid);
  // Compared when it is open: from then on the id cannot become another's unnoticed.
  if (process.is_open() && IdentityOf(identity.pid) != identity) process.Close();
  return process;
}

int SendSignal(const Descriptor& process, int signal) {
  if (pidfd_send_signal(process.number(), signal, nullptr, 0) == 0 || errno == ESRCH) return 0;
  return errno;
}

// (/proc/PID/task/TID/children would be shorter, but not every kernel has it.)
std::vector<pid_t> OwnChildren() {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    const auto [last, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || last != name.data() + name.size()) continue;
    const std::optional<ProcessStat> stat = StatOf(pid);
    if (stat && stat->parent == getpid()) children.push_back(pid);
  }
  return children;
}

}  // namespace millrace
