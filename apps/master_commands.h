// The commands that ask the MasterApp of a job for something, or about it.
#pragma once

#include <string>

namespace millrace {

// Parses the flags of the command of this name, runs it, and returns the exit code; of no command,
// that of wrong usage. argv[0] is the command.
int RunMasterCommand(const std::string& command, int argc, char** argv);

}  // namespace millrace
