// The topics of a job's master (docs/master.md). MasterApp creates, reads and writes them;
// WorkerApp reads `plan`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

enum class MasterTopic {
  kControl,  // commands and events (ControlRecord); deleted by the master behind its state
  kPlan,     // what the master has made of them (ProcessState, MasterState); compacted
};

inline constexpr MasterTopic kMasterTopics[] = {MasterTopic::kControl, MasterTopic::kPlan};

// "<job>.control" and "<job>.plan"; each has one partition.
std::string MasterTopicName(std::string_view job, MasterTopic topic);

// Their Kafka settings.
std::vector<std::pair<std::string, std::string>> MasterTopicConfig(MasterTopic topic);

}  // namespace millrace
