// Checks of a topic that exists already. Private to this folder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kafka/admin.h"

namespace millrace::kafka_internal {

// A topic's description by the cluster.
struct FoundTopic {
  int partitions = 0;
  int replicas = 0;  // of the partition that has the fewest
  int brokers = 0;   // of the cluster
  std::map<std::string, std::string, std::less<>> settings;

  int min_insync() const;  // min.insync.replicas; 1 when unknown
};

// Errors: FailedPrecondition, naming the topic, what was found, what is needed and the remedy. Only
// settings that can lose data or block a job are checked; the operators of the cluster may have
// changed the others.
Status CheckTopic(const TopicSettings& wanted, const FoundTopic& found);

// The least min.insync.replicas with which no acknowledged record is lost with one disk, as far as
// one broker may be down without blocking the job.
int WantedMinInsync(int replicas);

// How the topics of a job can lose acknowledged records although each of them passes CheckTopic: a
// sentence, or nothing.
class DurabilityReport {
 public:
  void Add(std::string_view topic, const FoundTopic& found);
  std::vector<std::string> Sentences() const;

 private:
  std::string one_broker_confirms_;  // topics, joined by ", "
  std::string one_replica_;
  int brokers_ = 0;
};

}  // namespace millrace::kafka_internal
