// Deletes topics, as Kafka's kafka-topics does, without a JVM: kafka_delete_topics BROKERS NAME...
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kafka/admin.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  millrace::KafkaOptions kafka;
  kafka.brokers = argv[1];
  const std::vector<std::string> topics(argv + 2, argv + argc);
  const auto admin = millrace::KafkaAdmin::Create(kafka, "delete-topics");
  const millrace::Status status =
      admin.ok() ? (*admin)->DeleteTopics(topics, std::chrono::minutes(1)) : admin.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
