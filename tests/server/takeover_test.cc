// Two servers on one shard, on librdkafka's mock cluster.
#include "server/takeover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "kafka/producer.h"
#include "messages/records.pb.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/stores/temporary_folder.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class TakeoverTest : public testing::Test {
 protected:
  TakeoverTest() {
    config_.set_name("takeover");
    config_.set_brokers(cluster_.options().brokers);
    config_.mutable_server()->set_data_dir(folder_.path());
    cluster_.CreateTopic(TopicName("takeover", Topic::kMetrics), 1);
  }

  // As a start does, for the holder of shard 1.
  void Wait() {
    const Status waited = WaitWhileTakenOver(config_, {1}, stop_);
    EXPECT_TRUE(waited.ok()) << waited;
  }

  const TemporaryFolder folder_;
  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
};

TEST_F(TakeoverTest, WhoWasNotFencedWaitsForNobody) {
  cluster_.SetDown();
  stop_ = true;  // or a wait would not end
  Wait();
}

TEST_F(TakeoverTest, WhoWasFencedWaitsOnceUntilTheOtherSendsNoHeartbeats) {
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "other"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  MetricPoint point;
  point.mutable_server()->set_shards(2);
  point.mutable_server()->set_shard(1);
  const std::string heartbeat = MakeFrames(point.SerializeAsString(), 0).front();
  RememberTakeover(config_, {1});
  steady_clock::time_point last = steady_clock::now();
  steady_clock::duration pause{};  // the longest between two heartbeats
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(
          (*producer)->Send(TopicName("takeover", Topic::kMetrics), 0, "server/1", heartbeat).ok());
      ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
      pause = std::max(pause, steady_clock::now() - last);
      last = steady_clock::now();
      std::this_thread::sleep_for(milliseconds(250));
    }
  });
  Wait();
  const auto waited_until = steady_clock::now();
  other.join();
  // (Unless a busy machine gave the other one no time for as long.)
  EXPECT_GT(waited_until - last + pause, seconds(2)) << "the other one was alive";
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "the mark has served";
}

TEST(TakenOverText, NamesTheProcessThatHasTheShard) {
  MetricPoint::ServerProgress holder;
  holder.set_shard(3);
  EXPECT_TRUE(TakenOverText(holder).starts_with("shard 3: another server took it over"));
  holder.set_process("process 4711 on mill");
  EXPECT_TRUE(TakenOverText(holder).starts_with("shard 3: process 4711 on mill took it over"));
}

TEST_F(TakeoverTest, WhoHostsAShardAfterAProcessIsItsSuccessor) {
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "other"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  const auto beat = [&](uint32_t shard, const std::string& process) {
    MetricPoint point;
    point.mutable_server()->set_shards(3);
    point.mutable_server()->set_shard(shard);
    point.mutable_server()->set_process(process);
    const std::string heartbeat = MakeFrames(point.SerializeAsString(), 0).front();
    ASSERT_TRUE(
        (*producer)->Send(TopicName("takeover", Topic::kMetrics), 0, "server/1", heartbeat).ok());
    ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
  };
  const auto successor = [&] {
    const auto found = SuccessorOf(config_, ShardId(1), "mine", stop_);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::nullopt;
  };
  EXPECT_EQ(successor(), std::nullopt);
  beat(1, "an older one");
  beat(1, "mine");
  EXPECT_EQ(successor(), std::nullopt) << "who was there before is none";
  beat(2, "of another shard");
  EXPECT_EQ(successor(), std::nullopt);
  beat(1, "a newer one");
  beat(1, "mine");  // it hung, and does not know yet
  EXPECT_EQ(successor(), "a newer one");
}

TEST_F(TakeoverTest, AStopEndsTheWait) {
  RememberTakeover(config_, {1});
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(WaitWhileTakenOver(config_, {1}, stop_)));
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path())) << "the next start waits";
}

}  // namespace
}  // namespace millrace
