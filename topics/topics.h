// The one table of topics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

class JobConfig;

enum class Topic {
  kJob,         // what all processes must agree on (features, training); compacted
  kInputData,   // rows; a partition per worker; deleted by who needs them last, or leases them
  kGradients,   // workers to servers; a partition per shard; deleted below the checkpoint
  kWeights,     // servers to workers; a partition for each that there may be, and a shared one;
                // short-lived
  kParameters,  // the durable model; a partition per shard; compacted
  kMetrics,     // points for displays
  kDeadLetter,  // unusable records, with the reason
};

inline constexpr Topic kAllTopics[] = {Topic::kJob,       Topic::kInputData,  Topic::kGradients,
                                       Topic::kWeights,   Topic::kParameters, Topic::kMetrics,
                                       Topic::kDeadLetter};

// "<job>.input-data" and so on: of a job whose number of shards was never changed.
std::string TopicName(std::string_view job, Topic topic);
// The same of any job: each layout of its shards (JobSealed, config.layout) has gradients, weights
// and parameters of its own.
std::string TopicName(const JobConfig& config, Topic topic);
// Whether it is one of those three.
bool IsOfLayout(Topic topic);
// What stands in the place of the job's name in all that one layout of its shards has for itself:
// topics, transactional ids, folders.
std::string LayoutName(std::string_view job, uint32_t layout);
std::string LayoutName(const JobConfig& config);
// Whether a job of this name would have the topics that a layout of another job's shards has.
bool IsNameOfLayout(std::string_view name);

// The partition of `weights` that all workers of a job read, or of a group of servers: behind those
// of as many as the job may have.
inline int32_t SharedWeightsPartition(uint32_t workers, uint32_t group = 0) {
  return static_cast<int32_t>(workers + group);
}

struct TopicPlan {
  Topic topic;
  std::string name;
  uint32_t partitions;
  std::vector<std::pair<std::string, std::string>> config;  // Kafka topic settings
};

// A job has no more of either; a message that names more is refused.
inline constexpr uint32_t kMostWorkers = 10'000;
inline constexpr uint32_t kMostShards = 1'000;
// The number of its shards is changed less often.
inline constexpr uint32_t kMostLayouts = 1'000;

// What only the training settings say.
struct TopicSizes {
  uint32_t shards = 1;
  uint32_t most_workers = 1;  // MostWorkers
  uint32_t groups = 1;        // of servers
};

// All topics of a job; without those that have a partition for each shard or worker that there may
// be when these settings are not known. `layout`: of its shards. REQUIRES workers, shards >= 1.
std::vector<TopicPlan> PlanTopics(std::string_view job, uint32_t workers,
                                  const std::optional<TopicSizes>& sizes, uint32_t layout = 0);

}  // namespace millrace
