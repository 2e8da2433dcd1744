// What every Kafka client of a program shares.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// The largest record (key and value) a producer takes; what is larger is split by its sender. With
// what the protocol adds it is below Kafka's default max.message.bytes, 1048588.
inline constexpr size_t kMaxRecordBytes = 1'000'000;

struct KafkaOptions {
  std::string brokers = "localhost:9092";
  // librdkafka properties that the user gave; they override this program's own. The few on which
  // the guarantees depend are refused (kafka/client_config.cc).
  std::vector<std::pair<std::string, std::string>> settings;
  // Give up when no broker answers for this long. 0: wait for ever, with a line every 5 s.
  double broker_timeout_s = 0;
};

}  // namespace millrace
