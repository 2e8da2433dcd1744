// The configuration of a program: a file in protobuf text format, and flags that override it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Adds groups of flags to a CLI11 application; each flag belongs to one field of JobConfig and says
// so. Load() reads --config FILE first, then applies the flags that were given, then validates.
class JobFlags {
 public:
  explicit JobFlags(CLI::App& app);

  void AddFeatures();
  void AddTraining();
  void AddProducer();
  void AddServer();
  void AddWorker();

  // InvalidArgument names the file, line and column, or the flag, and the remedy.
  StatusOr<JobConfig> Load() const;

 private:
  void AddEmbeddings();
  void AddReplicaServing();
  void AddSnapshots();
  template <typename T>
  void Add(const std::string& name, const std::string& group, const std::string& help,
           std::function<void(JobConfig&, const T&)> set);

  void AddFlag(const std::string& name, const std::string& group, const std::string& help,
               std::function<void(JobConfig&)> set);

  CLI::App& app_;
  std::string config_file_;
  std::vector<std::function<void(JobConfig&)>> overrides_;
};

// Parses text format into a config; errors as "NAME:LINE:COLUMN: reason". For JobFlags and tests.
Status ParseConfigText(const std::string& text, const std::string& name, JobConfig& config);

}  // namespace millrace
