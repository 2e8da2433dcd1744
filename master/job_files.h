// The files that a master's processes are started with.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// The settings of one group as RUN-DIR/config/GROUP-N.textproto, which only its owner can read,
// since it may hold passwords. Whenever they differ from those of the newest file, N grows: so a
// command that names the file changes with what the file says, and no process that is started again
// by an earlier plan reads a later one's settings. Returns the path. Errors name the file. Used by
// one thread.
StatusOr<std::string> KeepJobFile(const std::string& run_dir, const std::string& group,
                                  const JobConfig& config);

// The settings as text, for a place where texts have the names that their content gives them.
StatusOr<std::string> JobFileText(const JobConfig& config);
// GROUP-HASH.textproto, with which a command changes as it does with that of KeepJobFile.
std::string JobFileName(const std::string& group, const std::string& text);

// The last lines of a process's log, fit for a terminal, without those of earlier incarnations;
// empty: there is none that can be read.
std::string LastLogLines(const std::string& path, uint64_t incarnation, int lines);

// The last line of them that the process itself has written, not its ProcessShim; empty: none.
std::string LastWords(const std::string& path, uint64_t incarnation);

}  // namespace millrace
