// Every flag of the configuration: its name, its field and its help text.
#pragma once

#include <string>
#include <vector>

namespace millrace {

struct Flag {
  const char* name;   // "--input,--data": further names after commas
  const char* field;  // its path in JobConfig, which gives its type and default: see FlagField
  const char* help;
  // Shown as the default in --help where the field itself has none.
  const char* otherwise = nullptr;
};

// The programs that take a group of flags.
enum class FlagUser { kAll, kFeatures, kTraining, kServer, kProducer, kWorker, kMaster };

struct FlagGroup {
  FlagUser user;
  const char* title;  // in --help
  std::vector<Flag> flags;
};

const std::vector<FlagGroup>& FlagGroups();

// The flag of a field ("--batch-rows" of "training.batch_rows"), by its first name; empty if it has
// none.
std::string FlagOfField(const std::string& field);

// The program that takes a flag of this name ("--batch-rows"), such as "ServerApp"; empty if none
// does.
std::string ProgramWithFlag(const std::string& name);

}  // namespace millrace
