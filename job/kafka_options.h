// From a job's configuration to the settings of its Kafka clients.
#pragma once

#include "kafka/options.h"
#include "messages/job.pb.h"

namespace millrace {

KafkaOptions ToKafkaOptions(const JobConfig& config);

}  // namespace millrace
