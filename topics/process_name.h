// Processes of a job, and how they end, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// A job has no more processes; ranks are below.
inline constexpr uint32_t kMostProcesses = 1'000;

// InvalidArgument: a group or a rank that no process has.
Status CheckProcessName(const ProcessName& name);

// The name of a process, "worker-2", and back. InvalidArgument: it is no such name.
std::string ToText(const ProcessName& name);
StatusOr<ProcessName> ParseProcessName(std::string_view text);

// "exit code 3", "signal 9 (SIGKILL)": what stands behind "it ended: ". Fit for a terminal.
std::string ToText(const ProcessEnd& end);

}  // namespace millrace
