// The checkpoint log on librdkafka's mock cluster: what it costs while it waits.
#include "durability/checkpoints/kafka_checkpoint_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error_marks.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using SteadyClock = std::chrono::steady_clock;

double Seconds(SteadyClock::time_point since) {
  return std::chrono::duration<double>(SteadyClock::now() - since).count();
}

// Of this process: librdkafka's threads and the mock's.
double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

class KafkaCheckpointLogTest : public testing::Test {
 protected:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  void Open(const Settings& settings = {}) {
    JobConfig config;
    config.set_name("log");
    config.set_brokers(cluster_.options().brokers);
    config.set_broker_timeout_s(20);
    for (const auto& [key, value] : settings) {
      KafkaSetting* const setting = config.add_kafka();
      setting->set_key(key);
      setting->set_value(value);
    }
    cluster_.CreateTopic(TopicName("log", Topic::kParameters), 1);
    cluster_.CreateTopic(TopicName("log", Topic::kDeadLetter), 1);
    auto log = KafkaCheckpointLog::Create(config, 0, stop_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  static Checkpoint Of(int entries, size_t bytes) {
    Checkpoint checkpoint;
    for (int i = 0; i < entries; ++i) {
      checkpoint.entries.push_back({std::to_string(i), std::string(bytes, 'x')});
    }
    return checkpoint;
  }

  MockCluster cluster_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<KafkaCheckpointLog> log_;
};

TEST_F(KafkaCheckpointLogTest, WhileTheBrokerWritesACheckpointItsSenderLeavesTheProcessorAlone) {
  Open();
  const Checkpoint checkpoint = Of(60, 100'000);
  cluster_.SetRoundTrip(std::chrono::milliseconds(300));
  const auto begin = SteadyClock::now();
  const double cpu = ProcessorSeconds();
  EXPECT_EQ(log_->CommitTransaction(checkpoint, 0).value_or(Offset(-1)), 60);
  const double took = Seconds(begin);
  EXPECT_GT(took, 1.5) << "six requests of at most a megabyte, one after the other";
  EXPECT_LT(ProcessorSeconds() - cpu, took / 3);
}

TEST_F(KafkaCheckpointLogTest, ManySmallRecordsDoNotWaitForARequestThatIsFull) {
  Open();
  auto begin = SteadyClock::now();
  EXPECT_EQ(log_->CommitTransaction(Of(5'000, 10), 0).value_or(Offset(-1)), 5'000);
  const double tenth = Seconds(begin);  // one request, however fast the machine is
  begin = SteadyClock::now();
  EXPECT_EQ(log_->CommitTransaction(Of(50'000, 10), 0).value_or(Offset(-1)), 55'000);
  EXPECT_LT(Seconds(begin), 3 + 10 * std::min(tenth, 1.0));
}

// Its records run out of time while more of them wait for room in the queue.
TEST_F(KafkaCheckpointLogTest, ABrokerThatIsAwayForLongerThanATransactionLastsCostsTheTransaction) {
  Open({{"transaction.timeout.ms", "2000"}, {"socket.timeout.ms", "1000"}});
  const Checkpoint checkpoint = Of(60, 100'000);
  cluster_.SetDown();
  std::thread back([this] {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    cluster_.SetUp();
  });
  const Status failed = log_->CommitTransaction(checkpoint, 0).status();
  EXPECT_TRUE(absl::IsAborted(failed)) << failed;
  back.join();
  EXPECT_GE(log_->CommitTransaction(checkpoint, 0).value_or(Offset(-1)), 60);
}

TEST_F(KafkaCheckpointLogTest, AServerThatIsStoppedDoesNotWaitForABrokerThatIsAway) {
  Open();
  const Checkpoint checkpoint = Of(60, 100'000);
  cluster_.SetDown();
  stop_ = true;
  const auto begin = SteadyClock::now();
  const Status stopped = log_->CommitTransaction(checkpoint, 0).status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  EXPECT_LT(Seconds(begin), 20) << "a transaction lasts for a minute";
}

// A broker that cannot be reached cannot say whether the transaction was committed.
TEST_F(KafkaCheckpointLogTest, AServerThatIsStoppedBeginsNoTransactionAfterAnUnansweredCommit) {
  Open();
  const Checkpoint checkpoint = Of(1, 10);
  ASSERT_EQ(log_->CommitTransaction(checkpoint, 0).value_or(Offset(-1)), 1);
  cluster_.SetDown();
  stop_ = true;
  const Status stopped = log_->CommitTransaction(checkpoint, 1).status();
  ASSERT_TRUE(absl::IsCancelled(stopped)) << stopped;
  cluster_.SetUp();
  const Status again = log_->CommitTransaction(checkpoint, 1).status();
  EXPECT_TRUE(absl::IsCancelled(again)) << again;
}

TEST_F(KafkaCheckpointLogTest, AMissingPermissionToWriteIsAPermanentErrorThatNamesTheTopic) {
  Open();
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  const Status refused = log_->CommitTransaction(Of(1, 10), 0).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_TRUE(IsPermanent(refused));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("authorization"));
}

// The records wait for a partition that is never added: no delivery report tells.
TEST_F(KafkaCheckpointLogTest, ATransactionThatMayNotHaveThePartitionEndsSoonWithTheReason) {
  Open();
  cluster_.Fail(Request::kAddPartitionsToTransaction,
                {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  const auto begin = SteadyClock::now();
  const Status refused = log_->CommitTransaction(Of(1, 10), 0).status();
  EXPECT_LT(Seconds(begin), 30);
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_TRUE(IsPermanent(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("uthoriz"));
}

TEST_F(KafkaCheckpointLogTest, AnotherInstanceOfTheShardIsRecognisedByAMarkOnTheError) {
  Open();
  ASSERT_EQ(log_->CommitTransaction(Of(1, 10), 0).value_or(Offset(-1)), 1);
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
  const Status fenced = log_->CommitTransaction(Of(1, 10), 1).status();
  EXPECT_TRUE(IsFenced(fenced)) << fenced;
}

}  // namespace
}  // namespace millrace
