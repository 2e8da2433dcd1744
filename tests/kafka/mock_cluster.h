// librdkafka's mock cluster: brokers that live in this process and fail when told to.
#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/types.h"
#include "kafka/consumer.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "tests/kafka/until.h"

namespace millrace {

// The numbers of the protocol's requests.
enum class Request : int16_t {
  kProduce = 0,
  kFetch = 1,
  kCommitOffsets = 8,
  kAddPartitionsToTransaction = 24,
  kEndTransaction = 26,
};

class MockCluster {
 public:
  explicit MockCluster(int brokers = 1);
  ~MockCluster();
  MockCluster(const MockCluster&) = delete;
  MockCluster& operator=(const MockCluster&) = delete;

  KafkaOptions options() const;
  void CreateTopic(const std::string& name, int partitions);
  // The next requests of a kind are answered with these errors.
  void Fail(Request request, std::initializer_list<rd_kafka_resp_err_t> errors);
  void Fail(Request request, rd_kafka_resp_err_t error, size_t times);
  // Brokers do not know a topic that they have, or know it again.
  void Forget(const std::string& topic);
  void Remember(const std::string& topic);
  // No broker leads the topic's partition, or one does again.
  void TakeLeader(const std::string& topic, int32_t partition);
  void GiveLeader(const std::string& topic, int32_t partition);
  // Broker 2 answers those who read the partition, and has nothing at `end` and behind it; or,
  // given -1, all that broker 1 has. (For a cluster of two.)
  void ReadFromSecond(const std::string& topic, int32_t partition, Offset end);
  void SetDown();
  void SetUp();
  void SetRoundTrip(std::chrono::milliseconds time);

 private:
  rd_kafka_t* client_;
  rd_kafka_mock_cluster_t* cluster_;
};

struct Read {
  Offset offset;
  std::string key;
  std::string value;
  bool operator==(const Read&) const = default;
};

// Sends the values "0", "1", ... of [begin, end) and waits until they are delivered.
void ProduceNumbers(const KafkaOptions& kafka, const std::string& topic, int32_t partition,
                    int begin, int end);

}  // namespace millrace
