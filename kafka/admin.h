// Topics: created, checked, trimmed, deleted. librdkafka is included in kafka/ only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"

namespace millrace {

struct TopicSettings {
  std::string name;
  int32_t partitions = 1;
  std::vector<std::pair<std::string, std::string>> config{};
};

// Thread-safe.
class KafkaAdmin {
 public:
  static StatusOr<std::unique_ptr<KafkaAdmin>> Create(const KafkaOptions& kafka,
                                                      const std::string& client_id);
  virtual ~KafkaAdmin() = default;

  // Waits until a broker answers; prints a line to stderr every 5 s. `cancelled` is asked often.
  // Errors: DeadlineExceeded after kafka.broker_timeout_s; Cancelled.
  virtual Status WaitForBroker(const std::function<bool()>& cancelled) = 0;

  // Creates what is missing and checks what exists. A wrong partition count is a
  // FailedPrecondition that names the topic, both counts and the remedy; so is a setting that
  // would lose data (another cleanup.policy; a retention where -1 is wanted; unclean elections) or
  // let nobody write (more min.insync.replicas than replicas). A race with another creator is no
  // error. `replication_factor` -1: the cluster's default. A topic that it creates with three
  // replicas or more has min.insync.replicas=2; where an existing one can lose records with one
  // disk, a line on stderr says so.
  virtual Status EnsureTopics(const std::vector<TopicSettings>& topics, int replication_factor) = 0;

  // Partitions of a topic; NotFound.
  virtual StatusOr<int32_t> PartitionCount(const std::string& topic) = 0;

  // The names of all topics that this user may see. Errors: Unavailable or DeadlineExceeded when no
  // broker answers.
  virtual StatusOr<std::vector<std::string>> ListTopics() = 0;

  // Deletes the records of a partition below `offset`. Idempotent; an offset below the present
  // begin is no error. Waits for the broker's answer. Errors: NotFound: no such topic or partition;
  // FailedPrecondition: a topic that is only compacted; PermissionDenied, which is also logged;
  // Unavailable or DeadlineExceeded when no broker answers.
  virtual Status DeleteRecordsBefore(const std::string& topic, int32_t partition, Offset offset,
                                     std::chrono::milliseconds timeout) = 0;

  // Deletes topics. Those that do not exist are no error. Errors: PermissionDenied, which is also
  // logged; Unavailable or DeadlineExceeded when no broker answers.
  virtual Status DeleteTopics(const std::vector<std::string>& topics,
                              std::chrono::milliseconds timeout) = 0;
};

}  // namespace millrace
