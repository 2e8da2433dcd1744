// Makes sure of the topics of a job, before they are used.
#pragma once

#include <atomic>

#include "base/status.h"
#include "messages/job.pb.h"
#include "topics/topics.h"

namespace millrace {

// Both wait for a broker, then create the topics, or check those that exist. Errors: Cancelled when
// `stop` is set; FailedPrecondition, with what to do, when a topic is not as the job needs it;
// those of KafkaAdmin::EnsureTopics.

// The topics that do not depend on the training settings.
Status PrepareTopics(const JobConfig& config, const std::atomic<bool>& stop);
// The topics of the layout config.layout() of the job's shards (IsOfLayout).
Status PrepareLayoutTopics(const JobConfig& config, const TopicSizes& sizes,
                           const std::atomic<bool>& stop);

}  // namespace millrace
