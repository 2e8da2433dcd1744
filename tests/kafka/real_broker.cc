#include "tests/kafka/real_broker.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

extern char** environ;

namespace millrace {

void RealBrokerTest::SetUp() {
  const char* const brokers = std::getenv("MILLRACE_TEST_BROKERS");
  ASSERT_NE(brokers, nullptr)
      << "these tests need a real broker: MILLRACE_TEST_BROKERS=HOST:PORT, and "
         "MILLRACE_TEST_KAFKA_DIR=the folder in which scripts/kafka runs it";
  kafka_.brokers = brokers;
  kafka_.broker_timeout_s = 30;
  auto admin = KafkaAdmin::Create(kafka_, "test");
  ASSERT_TRUE(admin.ok()) << admin.status();
  admin_ = std::move(*admin);
  const Status there = admin_->WaitForBroker({});
  ASSERT_TRUE(there.ok()) << there;
}

std::string RealBrokerTest::FreshName() {
  static int count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return "door-" + std::to_string(getpid()) + "-" + std::to_string(now.count() % 1000000000) + "-" +
         std::to_string(count++);
}

std::string RealBrokerTest::CreateTopic(int32_t partitions,
                                        std::vector<std::pair<std::string, std::string>> config) {
  std::string name = FreshName();
  const Status status = admin_->EnsureTopics({{name, partitions, std::move(config)}}, 1);
  EXPECT_TRUE(status.ok()) << status;
  return name;
}

std::unique_ptr<KafkaProducer> RealBrokerTest::MakeProducer(const ProducerOptions& options) {
  auto producer = KafkaProducer::Create(kafka_, options, nullptr);
  EXPECT_TRUE(producer.ok()) << producer.status();
  return producer.ok() ? std::move(*producer) : nullptr;
}

void RealBrokerTest::ProduceNumbers(const std::string& topic, int32_t partition, int begin,
                                    int end) {
  // Of a partition that is new, its leader might refuse the first request and take the second.
  const auto producer =
      MakeProducer({.client_id = "numbers", .linger_ms = 1, .one_request_at_a_time = true});
  for (int i = begin; i < end; ++i) {
    const Status status = producer->Send(topic, partition, "key", std::to_string(i));
    ASSERT_TRUE(status.ok()) << status;
  }
  const Status status = producer->Flush(std::chrono::seconds(30));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(producer->TakeFailures().empty());
}

void RunKafkaScript(const std::string& command) {
  const char* const folder = std::getenv("MILLRACE_TEST_KAFKA_DIR");
  ASSERT_NE(folder, nullptr) << "MILLRACE_TEST_KAFKA_DIR is not set";
  std::string script = MILLRACE_KAFKA_SCRIPT;
  std::string verb = command;
  std::string option = "--dir";
  std::string value = folder;
  const std::array<char*, 5> arguments = {script.data(), verb.data(), option.data(), value.data(),
                                          nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, script.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0) << script << " " << command;
}

}  // namespace millrace
