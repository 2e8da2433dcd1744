// The name of a process as that of a folder and of a log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// "worker-2". InvalidArgument: the group is no name (ProcessName in master.proto): it comes from a
// topic, and must not lead out of the folder.
StatusOr<std::string> FolderNameOf(const ProcessName& process);

// Empty: it is the name of no process.
std::optional<ProcessName> ProcessOfFolder(std::string_view name);

// A number as it is written: without a sign or leading zeros.
std::optional<uint64_t> ParseNumber(std::string_view text);

}  // namespace millrace
