// What a master has to say of its processes: sentences, a table, JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "messages/master.pb.h"

namespace millrace {

// A job's processes, as the records of `plan` have them.
struct JobProcesses {
  MasterState state;
  std::vector<ProcessState> processes;  // by name
};

// A sentence for each process that has begun to run, ended or is being stopped since `before`, and
// for the job's phase. Without an end of line.
std::vector<std::string> News(const JobProcesses& before, const JobProcesses& now);

// The job's phase, and a line for each process: name, phase, incarnation, restarts, for how long,
// how it ended last. ASCII; ends with an end of line.
std::string StatusTable(const std::string& job, const JobProcesses& now);

// The same for programs (docs/master.md), with an end of line.
std::string StatusJson(const std::string& job, const JobProcesses& now);

}  // namespace millrace
