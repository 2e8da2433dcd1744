#include "job/kafka_options.h"

#include <string>

namespace millrace {

KafkaOptions ToKafkaOptions(const JobConfig& config) {
  KafkaOptions options;
  options.brokers = config.brokers();
  options.broker_timeout_s = config.broker_timeout_s();
  for (const KafkaSetting& setting : config.kafka()) {
    options.settings.emplace_back(setting.key(), setting.value());
  }
  return options;
}

std::string WorkersGroup(const JobConfig& config) { return config.name() + "-workers"; }

}  // namespace millrace
