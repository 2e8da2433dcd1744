// What every Kafka client of a program shares.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace millrace {

struct KafkaOptions {
  std::string brokers = "localhost:9092";
  // librdkafka properties that the user gave; they win over ours.
  std::vector<std::pair<std::string, std::string>> settings;
  // Give up when no broker answers for this long. 0: wait for ever, with a line every 5 s.
  double broker_timeout_s = 0;
};

}  // namespace millrace
