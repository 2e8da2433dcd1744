#include "tests/kafka/mock_cluster.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace millrace {

MockCluster::MockCluster(int brokers) {
  std::array<char, 512> text{};
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, nullptr);
  client_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text.data(), text.size());
  cluster_ = rd_kafka_mock_cluster_new(client_, brokers);
}

MockCluster::~MockCluster() {
  rd_kafka_mock_cluster_destroy(cluster_);
  rd_kafka_destroy(client_);
}

KafkaOptions MockCluster::options() const {
  KafkaOptions options;
  options.brokers = rd_kafka_mock_cluster_bootstraps(cluster_);
  return options;
}

void MockCluster::CreateTopic(const std::string& name, int partitions) {
  ASSERT_EQ(rd_kafka_mock_topic_create(cluster_, name.c_str(), partitions, 1),
            RD_KAFKA_RESP_ERR_NO_ERROR);
}

void MockCluster::Fail(Request request, std::initializer_list<rd_kafka_resp_err_t> errors) {
  rd_kafka_mock_push_request_errors_array(cluster_, static_cast<int16_t>(request), errors.size(),
                                          errors.begin());
}

void MockCluster::Fail(Request request, rd_kafka_resp_err_t error, size_t times) {
  const std::vector<rd_kafka_resp_err_t> errors(times, error);
  rd_kafka_mock_push_request_errors_array(cluster_, static_cast<int16_t>(request), errors.size(),
                                          errors.data());
}

void MockCluster::Forget(const std::string& topic) {
  rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}

void MockCluster::Remember(const std::string& topic) {
  rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), RD_KAFKA_RESP_ERR_NO_ERROR);
}

void MockCluster::TakeLeader(const std::string& topic, int32_t partition) {
  rd_kafka_mock_partition_set_leader(cluster_, topic.c_str(), partition, -1);
}
void MockCluster::GiveLeader(const std::string& topic, int32_t partition) {
  rd_kafka_mock_partition_set_leader(cluster_, topic.c_str(), partition, 1);
}

void MockCluster::ReadFromSecond(const std::string& topic, int32_t partition, Offset end) {
  rd_kafka_mock_partition_set_leader(cluster_, topic.c_str(), partition, 1);
  rd_kafka_mock_partition_set_follower(cluster_, topic.c_str(), partition, 2);
  rd_kafka_mock_partition_set_follower_wmarks(cluster_, topic.c_str(), partition, -1, end);
}

void MockCluster::SetDown() { rd_kafka_mock_broker_set_down(cluster_, 1); }
void MockCluster::SetUp() { rd_kafka_mock_broker_set_up(cluster_, 1); }
void MockCluster::SetRoundTrip(std::chrono::milliseconds time) {
  rd_kafka_mock_broker_set_rtt(cluster_, 1, static_cast<int>(time.count()));
}

void ProduceNumbers(const KafkaOptions& kafka, const std::string& topic, int32_t partition,
                    int begin, int end) {
  // In one batch, if they are not too many: a flush waits for no other.
  auto producer =
      KafkaProducer::Create(kafka, {.client_id = "numbers", .linger_ms = 10000}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  for (int i = begin; i < end; ++i) {
    ASSERT_TRUE(
        (*producer)->Send(topic, partition, "key" + std::to_string(i), std::to_string(i)).ok());
  }
  ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  ASSERT_TRUE((*producer)->TakeFailures().empty());
}

}  // namespace millrace
