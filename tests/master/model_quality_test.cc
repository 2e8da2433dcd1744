#include "master/model_quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "kafka/producer.h"
#include "messages/records.pb.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

class ModelQualityTest : public testing::Test {
 protected:
  ModelQualityTest() {
    config_.set_name("judged");
    config_.set_brokers(cluster_.options().brokers);
  }

  void SendPoint(uint32_t shard, uint64_t rows, double log_loss) {
    MetricPoint point;
    point.set_timestamp_ms(1'000);
    point.mutable_server()->set_shards(2);
    point.mutable_server()->set_shard(shard);
    Figures& figures = *point.mutable_server()->mutable_progressive();
    figures.set_rows(rows);
    figures.set_log_loss(log_loss);
    figures.set_prior_log_loss(0.5);
    SendValue(WholeFrameHeader() + point.SerializeAsString());
  }
  void SendValue(const std::string& value) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "server"}, nullptr);
    ASSERT_TRUE((*producer)->Send(topic_, 0, "", value).ok());
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }
  StatusOr<std::optional<std::string>> Read() { return ReadWorseThanPrior(config_, stop_); }

  MockCluster cluster_;
  const std::string topic_ = TopicName("judged", Topic::kMetrics);
  JobConfig config_;
  std::atomic<bool> stop_ = false;
};

TEST_F(ModelQualityTest, IsThatOfTheNewestFiguresOfTheWholeJob) {
  cluster_.CreateTopic(topic_, 1);
  EXPECT_EQ(Read().value(), std::nullopt) << "there are no figures yet";
  SendPoint(0, 5'000, 0.75);
  SendPoint(1, 0, 0);  // the other shards tell none
  SendValue("no point");
  EXPECT_THAT(Read().value(), Optional(HasSubstr("after 5000 rows the model is worse")));
  SendPoint(0, 9'000, 0.25);
  EXPECT_EQ(Read().value(), std::nullopt) << "it has learnt";
}

TEST_F(ModelQualityTest, IsNotKnownOfAJobThatWritesNoFigures) {
  EXPECT_EQ(Read().value(), std::nullopt);
}

}  // namespace
}  // namespace millrace
