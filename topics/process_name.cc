#include "topics/process_name.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/printable.h"

namespace millrace {
namespace {

constexpr size_t kMostGroupNameBytes = 32;

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsGroupName(std::string_view name) {
  return !name.empty() && name.size() <= kMostGroupNameBytes && IsLetter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return IsLetter(c) || IsDigit(c) || c == '-'; });
}

Status NoProcess(std::string_view text) {
  return absl::InvalidArgumentError("\"" + Printable(text, 100) +
                                    "\" is not the name of a process, such as worker-2");
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "" : " (SIG" + std::string(name) + ")";
}

}  // namespace

Status CheckProcessName(const ProcessName& name) {
  if (!IsGroupName(name.group())) {
    return absl::InvalidArgumentError(
        "\"" + Printable(name.group(), 100) +
        "\" is not the name of a group of processes: lower-case letters, digits and hyphens, at "
        "most " +
        std::to_string(kMostGroupNameBytes) + ", a letter first");
  }
  if (name.rank() < kMostProcesses) return absl::OkStatus();
  return absl::InvalidArgumentError("rank " + std::to_string(name.rank()) + " of the group " +
                                    name.group() + " is out of range: a job has at most " +
                                    std::to_string(kMostProcesses) + " processes");
}

std::string ToText(const ProcessName& name) {
  return name.group() + "-" + std::to_string(name.rank());
}

StatusOr<ProcessName> ParseProcessName(std::string_view text) {
  const size_t hyphen = text.rfind('-');
  if (hyphen == std::string_view::npos) return NoProcess(text);
  const std::string_view digits = text.substr(hyphen + 1);
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  ProcessName name;
  name.set_group(std::string(text.substr(0, hyphen)));
  name.set_rank(rank);
  // Written again it must be the same: no other text is this process's name.
  if (error != std::errc() || end != digits.data() + digits.size() ||
      !CheckProcessName(name).ok() || ToText(name) != text) {
    return NoProcess(text);
  }
  return name;
}

std::string ToText(const ProcessEnd& end) {
  const std::string detail = end.detail().empty() ? "" : ": " + Printable(end.detail());
  switch (end.cause()) {
    case ProcessEnd::EXITED:
      return "exit code " + std::to_string(end.code()) + detail;
    case ProcessEnd::SIGNALED:
      return "signal " + std::to_string(end.code()) + SignalName(end.code()) + detail;
    case ProcessEnd::OUT_OF_MEMORY:
      return "killed by the kernel, out of memory" + detail;
    case ProcessEnd::NOT_STARTED:
      return "its program cannot be executed" + detail;
    default:  // also a cause of a newer version
      return "exit status unknown" + detail;
  }
}

}  // namespace millrace
