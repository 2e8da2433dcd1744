// What tasks want sent, on librdkafka's mock cluster.
#include "job/record_sender.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

TEST(RecordSender, AClientThatHasFailedForGoodIsReplacedAndWhatWasLostIsToBeAnnouncedAgain) {
  MockCluster cluster;
  JobConfig config;
  config.set_name("sender");
  config.set_brokers(cluster.options().brokers);
  cluster.CreateTopic(TopicName("sender", Topic::kWeights), 1);
  const std::atomic<bool> stop = false;
  const BrokerRetry broker_retry(stop, 0);
  auto sender = RecordSender::Create(config, "test", {Topic::kWeights}, broker_retry, nullptr);
  ASSERT_TRUE(sender.ok()) << sender.status();
  EXPECT_FALSE((*sender)->DeliveryFailed());
  // As from a broker that came back without what it had taken.
  cluster.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER});
  bool failed = false;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!failed && std::chrono::steady_clock::now() < limit) {
    std::vector<OutgoingRecord> records = {{Topic::kWeights, 0, "key", "value"}};
    ASSERT_TRUE((*sender)->Send(records).ok());
    (void)(*sender)->Flush(std::chrono::milliseconds(10));
    failed = (*sender)->DeliveryFailed();
  }
  EXPECT_TRUE(failed);
  std::vector<OutgoingRecord> records = {{Topic::kWeights, 0, "key", "again"}};
  ASSERT_TRUE((*sender)->Send(records).ok());
  EXPECT_TRUE((*sender)->Flush(std::chrono::seconds(10)).ok());
  (void)(*sender)->DeliveryFailed();
  EXPECT_FALSE((*sender)->DeliveryFailed());
}

}  // namespace
}  // namespace millrace
