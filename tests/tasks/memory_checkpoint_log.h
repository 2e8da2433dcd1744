// The topics `parameters` and dead-letter in memory, for tests.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tasks/checkpoint.h"

namespace millrace {

class MemoryCheckpointLog final : public CheckpointLog {
 public:
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    calls.push_back("commit");
    if (!commit_status.ok()) return commit_status;
    const auto end = static_cast<Offset>(parameters.size() + checkpoint.records());
    MILLRACE_RETURN_IF_ERROR(CheckFollows(end, checkpoint.records(), previous_end));
    checkpoint.VisitRecords(0, [this](std::string_view key, std::string_view value) {
      parameters.push_back({std::string(key), std::string(value)});
      return true;
    });
    // A transaction's own marker takes an offset too.
    parameters.push_back({});
    dead_letters.insert(dead_letters.end(), checkpoint.dead_letters.begin(),
                        checkpoint.dead_letters.end());
    return static_cast<Offset>(parameters.size());
  }

  Status TrimGradients(Offset position) override {
    calls.push_back("trim " + std::to_string(position));
    if (!trim_status.ok()) return trim_status;
    gradients_begin = position;
    return absl::OkStatus();
  }

  Status commit_status;
  Status trim_status;
  std::vector<std::string> calls;
  std::vector<Checkpoint::Entry> parameters;  // an empty key: no record for the application
  std::vector<std::string> dead_letters;
  Offset gradients_begin = 0;
};

}  // namespace millrace
