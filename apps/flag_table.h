// Every flag of the configuration: its name, its field and what --help says of it.
#pragma once

#include <string>
#include <vector>

namespace millrace {

struct Flag {
  const char* name;   // "--input,--data": with other names behind commas
  const char* field;  // its path in JobConfig, which gives its type and default: see FlagField
  const char* help;
  // What holds without the flag, where the field has no default that says so.
  const char* otherwise = nullptr;
};

// Who takes a group of flags.
enum class FlagUser { kAll, kFeatures, kTraining, kServer, kProducer, kWorker };

struct FlagGroup {
  FlagUser user;
  const char* title;  // in --help
  std::vector<Flag> flags;
};

const std::vector<FlagGroup>& FlagGroups();

// "ServerApp": who takes a flag of this name ("--batch-rows"); empty if nobody does.
std::string ProgramWithFlag(const std::string& name);

}  // namespace millrace
