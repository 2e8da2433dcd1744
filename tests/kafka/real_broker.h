// The broker that the environment names.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kafka/admin.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "tests/kafka/until.h"

namespace millrace {

class RealBrokerTest : public testing::Test {
 protected:
  // Fails without MILLRACE_TEST_BROKERS.
  void SetUp() override;

  // A topic that nobody else has.
  std::string CreateTopic(int32_t partitions,
                          std::vector<std::pair<std::string, std::string>> config = {});
  std::string FreshName();
  std::unique_ptr<KafkaProducer> MakeProducer(const ProducerOptions& options);
  // Sends and flushes the values "begin" ... "end - 1".
  void ProduceNumbers(const std::string& topic, int32_t partition, int begin, int end);

  KafkaOptions kafka_;
  std::unique_ptr<KafkaAdmin> admin_;
};

// Runs scripts/kafka COMMAND on the folder that MILLRACE_TEST_KAFKA_DIR names.
void RunKafkaScript(const std::string& command);

}  // namespace millrace
