#include <gmock/gmock.h>

#include <thread>

#include "kafka/consumer.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class BrokerAdminTest : public RealBrokerTest {
 protected:
  // The range of partition 0.
  OffsetRange RangeOf(const std::string& topic) {
    auto consumer = PartitionConsumer::Create(kafka_, {.client_id = "range"}, topic, nullptr);
    EXPECT_TRUE(consumer.ok());
    const StatusOr<OffsetRange> range = (*consumer)->QueryRange(0, seconds(10));
    EXPECT_TRUE(range.ok()) << range.status();
    return range.value_or(OffsetRange{-1, -1});
  }
};

TEST_F(BrokerAdminTest, TopicsAreCreatedOnceAndFoundAfterwards) {
  const std::string one = FreshName();
  const std::string other = FreshName();
  EXPECT_TRUE(absl::IsNotFound(admin_->PartitionCount(one).status()));
  const std::vector<TopicSettings> topics = {
      {one, 3, {{"cleanup.policy", "compact,delete"}, {"retention.ms", "-1"}}}, {other, 1, {}}};
  for (int i = 0; i < 2; ++i) {
    const Status status = admin_->EnsureTopics(topics, 1);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(admin_->PartitionCount(one).value_or(-1), 3);
  EXPECT_EQ(admin_->PartitionCount(other).value_or(-1), 1);
}

TEST_F(BrokerAdminTest, ManyMayCreateTheSameTopicsAtOnce) {
  std::vector<TopicSettings> topics;
  for (int i = 0; i < 4; ++i) topics.push_back({FreshName(), 2, {}});
  std::vector<std::thread> threads;
  std::vector<Status> results(4);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = admin_->EnsureTopics(topics, 1); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST_F(BrokerAdminTest, AWrongPartitionCountIsAnErrorThatSaysWhatToDo) {
  const std::string topic = CreateTopic(3);
  const Status status = admin_->EnsureTopics({{topic, 4, {}}}, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  for (const std::string& part : {topic, std::string("3 partitions"), std::string("needs 4"),
                                  std::string("delete the topic")}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST_F(BrokerAdminTest, ASettingThatWouldLoseDataIsAnError) {
  const std::string topic = CreateTopic(1, {{"cleanup.policy", "delete"}});
  const Status status = admin_->EnsureTopics({{topic, 1, {{"cleanup.policy", "compact"}}}}, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cleanup.policy=delete"));
  // The order of a list is of no importance.
  const std::string both = CreateTopic(1, {{"cleanup.policy", "compact,delete"}});
  EXPECT_TRUE(admin_->EnsureTopics({{both, 1, {{"cleanup.policy", "delete, compact"}}}}, 1).ok());

  const std::string forgets =
      CreateTopic(1, {{"retention.ms", "60000"}, {"max.message.bytes", "5000"}});
  const Status short_lived = admin_->EnsureTopics({{forgets, 1, {{"retention.ms", "-1"}}}}, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(short_lived)) << short_lived;
  EXPECT_THAT(std::string(short_lived.message()), HasSubstr("retention.ms=60000"));
  // A finite one is ours to propose and others' to change; a larger record limit harms nobody.
  EXPECT_TRUE(admin_->EnsureTopics({{forgets, 1, {{"retention.ms", "5000"}}}}, 1).ok());
  EXPECT_TRUE(admin_->EnsureTopics({{forgets, 1, {{"max.message.bytes", "4000"}}}}, 1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      admin_->EnsureTopics({{forgets, 1, {{"max.message.bytes", "6000"}}}}, 1)));
}

TEST_F(BrokerAdminTest, OfSeveralTopicsEachIsJudgedByItsOwnSettings) {
  const TopicSettings keeps = {FreshName(), 1, {{"retention.ms", "-1"}}};
  TopicSettings forgets = {FreshName(), 2, {{"retention.ms", "60000"}}};
  ASSERT_TRUE(admin_->EnsureTopics({keeps, forgets}, 1).ok());
  forgets.config = {{"retention.ms", "-1"}};
  for (const std::vector<TopicSettings>& topics : {std::vector{keeps, forgets}, {forgets, keeps}}) {
    const Status status = admin_->EnsureTopics(topics, 1);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(forgets.name));
  }
}

TEST_F(BrokerAdminTest, ATopicThatElectsUncleanLeadersIsAnError) {
  const std::string topic = CreateTopic(1, {{"unclean.leader.election.enable", "true"}});
  const Status status =
      admin_->EnsureTopics({{topic, 1, {{"unclean.leader.election.enable", "false"}}}}, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("unclean.leader.election.enable=true"));
}

// As on a cluster whose own default for every topic is two.
TEST_F(BrokerAdminTest, ATopicThatIsCreatedTakesRecordsWithTheReplicasThatItGot) {
  const std::string topic = FreshName();
  const std::vector<TopicSettings> topics = {
      {topic, 1, {{"retention.ms", "-1"}, {"min.insync.replicas", "2"}}}};
  Status status = admin_->EnsureTopics(topics, -1);
  ASSERT_TRUE(status.ok()) << status;
  ProduceNumbers(topic, 0, 0, 10);
  EXPECT_EQ(RangeOf(topic).end, 10);
  // Its other settings are as they were.
  status = admin_->EnsureTopics({{topic, 1, {{"retention.ms", "-1"}}}}, -1);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(BrokerAdminTest, ATopicWhoseTimesAreItsWritersIsRefusedWhereTheBrokersAreNeeded) {
  const std::string writers = CreateTopic(1, {{"message.timestamp.type", "CreateTime"}});
  const std::string brokers = CreateTopic(1, {{"message.timestamp.type", "LogAppendTime"}});
  const Status refused =
      admin_->EnsureTopics({{writers, 1, {{"message.timestamp.type", "LogAppendTime"}}}}, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("message.timestamp.type=CreateTime"));
  EXPECT_TRUE(
      admin_->EnsureTopics({{brokers, 1, {{"message.timestamp.type", "LogAppendTime"}}}}, 1).ok());
}

TEST_F(BrokerAdminTest, AnImpossibleTopicIsAnError) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      admin_->EnsureTopics({{FreshName(), 1, {{"no.such.setting", "1"}}}}, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(admin_->EnsureTopics({{FreshName(), 1, {}}}, 7)));
  EXPECT_TRUE(absl::IsInvalidArgument(admin_->EnsureTopics({{"no spaces!", 1, {}}}, 1)));
}

TEST_F(BrokerAdminTest, LookingForATopicDoesNotCreateIt) {
  const std::string topic = FreshName();
  const auto producer = MakeProducer({.client_id = "test"});
  EXPECT_TRUE(absl::IsNotFound(producer->Prepare({topic})));
  EXPECT_TRUE(absl::IsNotFound(admin_->PartitionCount(topic).status()));
}

TEST_F(BrokerAdminTest, RecordsAreDeletedBelowAnOffsetAndOnlyThere) {
  const std::string topic = CreateTopic(1);
  ProduceNumbers(topic, 0, 0, 100);
  for (int i = 0; i < 2; ++i) {  // again: no error
    const Status status = admin_->DeleteRecordsBefore(topic, 0, 60, seconds(10));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(RangeOf(topic).begin, 60);
  }
  EXPECT_TRUE(admin_->DeleteRecordsBefore(topic, 0, 10, seconds(10)).ok());
  EXPECT_EQ(RangeOf(topic).begin, 60);
  EXPECT_EQ(RangeOf(topic).end, 100);
  EXPECT_TRUE(absl::IsOutOfRange(admin_->DeleteRecordsBefore(topic, 0, 101, seconds(10))));
  const Status nowhere = admin_->DeleteRecordsBefore(FreshName(), 0, 1, seconds(2));
  EXPECT_TRUE(absl::IsNotFound(nowhere)) << nowhere;
}

TEST_F(BrokerAdminTest, ATopicThatIsOnlyCompactedKeepsItsRecordsAndSaysWhy) {
  const std::string topic = CreateTopic(1, {{"cleanup.policy", "compact"}});
  ProduceNumbers(topic, 0, 0, 10);
  const Status status = admin_->DeleteRecordsBefore(topic, 0, 5, seconds(10));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("compact,delete"));
}

TEST_F(BrokerAdminTest, AReaderOfDeletedRecordsIsToldAndSkipsNothingInSilence) {
  const std::string topic = CreateTopic(1);
  ProduceNumbers(topic, 0, 0, 100);
  auto consumer = PartitionConsumer::Create(kafka_, {.client_id = "test"}, topic, nullptr);
  ASSERT_TRUE(consumer.ok());
  std::vector<std::string> values;
  std::vector<int32_t> out_of_range;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    values.emplace_back(record.value);
    return absl::OkStatus();
  };
  handler.on_out_of_range = [&](int32_t partition) {
    out_of_range.push_back(partition);
    return absl::OkStatus();
  };
  ASSERT_TRUE(admin_->DeleteRecordsBefore(topic, 0, 60, seconds(10)).ok());
  ASSERT_TRUE((*consumer)->Assign(0, 59).ok());
  ASSERT_TRUE(Until([&] {
    EXPECT_TRUE((*consumer)->Poll(1000, handler).ok());
    return !out_of_range.empty();
  }));
  EXPECT_THAT(values, testing::IsEmpty());
  ASSERT_TRUE((*consumer)->Assign(0, 60).ok());
  ASSERT_TRUE(Until([&] {
    EXPECT_TRUE((*consumer)->Poll(1000, handler).ok());
    return values.size() == 40;
  }));
  EXPECT_EQ(values, Numbers(60, 100));
  EXPECT_THAT(out_of_range, ElementsAre(0));
}

}  // namespace
}  // namespace millrace
