// From a job's configuration to the settings of its Kafka clients.
#pragma once

#include <string>

#include "kafka/options.h"
#include "messages/job.pb.h"

namespace millrace {

KafkaOptions ToKafkaOptions(const JobConfig& config);
// The consumer group whose positions say what the job's workers have read.
std::string WorkersGroup(const JobConfig& config);

}  // namespace millrace
