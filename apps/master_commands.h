// The commands that ask the MasterApp of a job for something, or about it.
#pragma once

namespace millrace {

// Each parses its flags, runs, and returns the exit code. argv[0] is the command.
int RunMasterStatus(int argc, char** argv);
int RunMasterStop(int argc, char** argv);
int RunMasterResize(int argc, char** argv);
int RunMasterMove(int argc, char** argv);
int RunMasterReshard(int argc, char** argv);

}  // namespace millrace
