// From a job's configuration to the settings of its Kafka clients.
#pragma once

#include "messages/job.pb.h"
#include "runtime/kafka/options.h"

namespace millrace {

KafkaOptions KafkaOptionsOf(const JobConfig& config);

}  // namespace millrace
