// The broker goes away and comes back: everyone waits and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "kafka/admin.h"
#include "kafka/brokers_text.h"
#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(Outage, ProducerAndReaderGoOnAfterIt) {
  MockCluster cluster;
  cluster.CreateTopic("t", 1);
  auto producer = KafkaProducer::Create(cluster.options(), {.client_id = "p"}, nullptr);
  ASSERT_TRUE((*producer)->Prepare({"t"}).ok());
  auto consumer = PartitionConsumer::Create(cluster.options(), {.client_id = "c"}, "t", nullptr);
  ASSERT_TRUE((*consumer)->Assign(0, 0).ok());
  std::vector<std::string> values;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    values.emplace_back(record.value);
    return absl::OkStatus();
  };

  testing::internal::CaptureStderr();
  int sent = 0;
  const auto send = [&](int count) {
    for (int i = 0; i < count; ++i, ++sent) {
      ASSERT_TRUE((*producer)->Send("t", 0, "", std::to_string(sent)).ok());
      (*producer)->Poll(milliseconds(1));
      ASSERT_TRUE((*consumer)->Poll(1000, handler).ok());
    }
  };
  for (int outage = 0; outage < 2; ++outage) {
    send(100);
    // The mock does not know repeated requests for what they are, as a broker does; so none is
    // under way when it goes.
    ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
    cluster.SetDown();
    send(100);
    std::this_thread::sleep_for(seconds(1));
    cluster.SetUp();
    ASSERT_TRUE(Until([&] {
      (*producer)->Poll(milliseconds(0));
      EXPECT_TRUE((*consumer)->Poll(1000, handler).ok());
      return values.size() == static_cast<size_t>(sent);
    }));
  }
  EXPECT_EQ(values, Numbers(0, sent));
  EXPECT_TRUE((*producer)->TakeFailures().empty());

  // One line for each loss and each return, though two clients noticed, which would be eight. (One
  // may notice the loss when the other has seen the return.)
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int of_this_cluster = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(cluster.options().brokers) != std::string::npos) ++of_this_cluster;
  }
  EXPECT_LE(of_this_cluster, 6) << lines.str();
}

TEST(Outage, WaitingForABrokerEndsWhenItsTimeIsUp) {
  KafkaOptions kafka;
  kafka.brokers = "127.0.0.1:1";
  kafka.broker_timeout_s = 0.5;
  auto admin = KafkaAdmin::Create(kafka, "test");
  ASSERT_TRUE(admin.ok());
  const Status status = (*admin)->WaitForBroker({});
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
}

TEST(Outage, WaitingForABrokerEndsWhenTheUserWantsToStop) {
  KafkaOptions kafka;
  kafka.brokers = "127.0.0.1:1";
  auto admin = KafkaAdmin::Create(kafka, "test");
  ASSERT_TRUE(admin.ok());
  int asked = 0;
  const Status status = (*admin)->WaitForBroker([&] { return ++asked > 3; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST(Outage, IsToldWithTheFlagThatSaysWhereKafkaIs) {
  EXPECT_EQ(BrokersText("localhost:9092"), "localhost:9092 (the default of --brokers)");
  EXPECT_EQ(BrokersText("a:1,b:2"), "a:1,b:2 (--brokers)");
}

TEST(Outage, WaitingForABrokerTellsItEveryFiveSeconds) {
  KafkaOptions kafka;
  kafka.brokers = "127.0.0.1:1";
  auto admin = KafkaAdmin::Create(kafka, "test");
  ASSERT_TRUE(admin.ok());
  testing::internal::CaptureStderr();
  const auto began = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::steady_clock::now() - began; };
  int late = 0;  // it tells in the round between these two
  const Status status =
      (*admin)->WaitForBroker([&] { return waited() > seconds(5) && ++late > 1; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, testing::ContainsRegex(
                         "waiting for Kafka at 127.0.0.1:1 .--brokers. for [0-9]+ s ...\n"));
  size_t told = 0;
  for (size_t at = 0; (at = lines.find("waiting for Kafka", at)) != std::string::npos; ++at) ++told;
  EXPECT_LE(told, waited() / seconds(5)) << lines;
}

TEST(Outage, WaitingForABrokerEndsWhenItIsThere) {
  MockCluster cluster;
  cluster.SetDown();
  auto admin = KafkaAdmin::Create(cluster.options(), "test");
  ASSERT_TRUE(admin.ok());
  std::thread later([&] {
    std::this_thread::sleep_for(seconds(1));
    cluster.SetUp();
  });
  EXPECT_TRUE((*admin)->WaitForBroker({}).ok());
  later.join();
}

}  // namespace
}  // namespace millrace
