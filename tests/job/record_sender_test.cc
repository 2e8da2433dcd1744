// What tasks want sent, on librdkafka's mock cluster.
#include "job/record_sender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
  EXPECT_TRUE((*sender)->Flush(std::chrono::seconds(60)).ok());
  (void)(*sender)->DeliveryFailed();
  EXPECT_FALSE((*sender)->DeliveryFailed());
}

class RecordSenderTest : public testing::Test {
 protected:
  RecordSenderTest() {
    config_.set_name("sender");
    config_.set_brokers(cluster_.options().brokers);
    cluster_.CreateTopic(TopicName("sender", Topic::kWeights), 1);
    auto sender = RecordSender::Create(config_, "test", {Topic::kWeights}, broker_retry_, nullptr);
    EXPECT_TRUE(sender.ok()) << sender.status();
    sender_ = *std::move(sender);
  }

  Status SendOne(size_t bytes) {
    std::vector<OutgoingRecord> records = {{Topic::kWeights, 0, "key", std::string(bytes, 'x')}};
    return sender_->Send(records);
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
  const BrokerRetry broker_retry_{stop_, 0};
  std::unique_ptr<RecordSender> sender_;
};

TEST_F(RecordSenderTest, WhoIsStoppedDoesNotWaitForRoomInTheQueueOfABrokerThatIsAway) {
  cluster_.SetDown();
  std::thread stopper([this] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    stop_ = true;
  });
  Status status = absl::OkStatus();
  while (status.ok()) status = SendOne(500'000);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  stopper.join();
}

TEST_F(RecordSenderTest, DeliveriesThatFailAgainAndAgainAreRepeatedAfterLongerAndLongerTimes) {
  int repeated = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  const auto limit = end + std::chrono::seconds(60);  // of a busy machine
  while (std::chrono::steady_clock::now() < (repeated < 2 ? limit : end)) {
    cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_POLICY_VIOLATION});
    ASSERT_TRUE(SendOne(10).ok());
    (void)sender_->Flush(std::chrono::seconds(1));
    if (sender_->DeliveryFailed()) ++repeated;
  }
  EXPECT_GE(repeated, 2);
  EXPECT_LE(repeated, 7) << "at 0, 0.1, 0.3, 0.7, 1.5 s ..";
}

}  // namespace
}  // namespace millrace
