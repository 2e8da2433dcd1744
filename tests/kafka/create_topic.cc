// Creates a topic, as Kafka's kafka-topics does, without a JVM, and waits until a broker reports
// it. kafka_create_topic BROKERS NAME PARTITIONS [KEY=VALUE...]: settings of the topic.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "kafka/admin.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  millrace::KafkaOptions kafka;
  kafka.brokers = argv[1];
  millrace::TopicSettings topic = {.name = argv[2], .partitions = std::atoi(argv[3])};
  for (int i = 4; i < argc; ++i) {
    const std::string setting = argv[i];
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) return 2;
    topic.config.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  const auto admin = millrace::KafkaAdmin::Create(kafka, "create-topic");
  const millrace::Status status = admin.ok() ? (*admin)->EnsureTopics({topic}, 1) : admin.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
