#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/flag_table.h"
#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Adds groups of flags (apps/flag_table.cc) to a CLI11 application; each flag belongs to one field
// of JobConfig. Load() reads --config FILE first, then applies the flags that were given, then
// validates, and refuses a flag that has no effect beside the others. `app` outlives it.
class JobFlags {
 public:
  // With the flags that every program has.
  explicit JobFlags(CLI::App& app);

  void AddFeatures() { AddGroups(FlagUser::kFeatures); }
  void AddTraining() { AddGroups(FlagUser::kTraining); }
  void AddProducer() { AddGroups(FlagUser::kProducer); }
  void AddServer() { AddGroups(FlagUser::kServer); }
  void AddWorker() { AddGroups(FlagUser::kWorker); }
  // All of them, for a program that starts the others; each field once, those in `without` not.
  void AddAll(std::span<const std::string_view> without);
  // Of those that every program has, these have no effect on this one. They may be given, since
  // they stand in the command lines of a job's other programs, but are not shown.
  void Hide(std::initializer_list<const char*> flags);

  // InvalidArgument names the file, line and column, or the flag, and the remedy.
  StatusOr<JobConfig> Load() const;

 private:
  void AddGroups(FlagUser user);
  void AddFlag(const Flag& flag, const std::string& group);

  CLI::App& app_;
  std::string config_file_;
  std::vector<std::function<Status(JobConfig&)>> overrides_;
  std::vector<std::string> given_;  // the fields of the flags on the command line
};

// Parses text format into a config; errors as "NAME:LINE:COLUMN: reason". For JobFlags and tests.
Status ParseConfigText(const std::string& text, const std::string& name, JobConfig& config);

}  // namespace millrace
