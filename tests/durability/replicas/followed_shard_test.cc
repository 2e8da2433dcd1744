// A shard that is followed over its checkpoints, on librdkafka's mock cluster.
#include "durability/replicas/followed_shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/fold_and_answer.h"
#include "topics/topics.h"

namespace millrace {
namespace {

class FollowedShardTest : public testing::Test {
 protected:
  // Its blocks are more than a follower takes at once, so that a checkpoint comes in parts; and
  // less than the mock cluster keeps of a partition, 5 MB.
  static constexpr uint64_t kKeys =
      kMostBatchBytes / sizeof(float) + 10 * ParameterShard::kBlockKeys;

  void SetUp() override {
    config_.set_name("followed");
    config_.set_brokers(cluster_.options().brokers);
    for (const TopicPlan& plan : PlanTopics("followed", 1, TopicSizes())) {
      cluster_.CreateTopic(plan.name, static_cast<int>(plan.partitions));
    }
    options_.range = {0, kKeys};
    task_ = std::make_unique<ShardTask>(options_, store_);
    ASSERT_TRUE(task_->StartReplay(0, 0).ok());
    auto log = KafkaCheckpointLog::Create(config_, 0, stop_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }
  void Follow() {
    auto followed = FollowedShard::Create(config_, options_, {}, &wakeup_, stop_);
    ASSERT_TRUE(followed.ok()) << followed.status();
    followed_ = *std::move(followed);
  }

  // Of the shard with these weights, a record further on.
  Checkpoint CheckpointOf(float weight) {
    auto& shard = const_cast<ParameterShard&>(task_->processor().shard());
    std::ranges::fill(shard.mutable_weights(), weight);
    shard.MarkAllUpdated();
    const LogRecord record = RecordOf(Message(Gradient::kAsk, 0, 0));
    std::vector<OutgoingRecord> ignored;
    EXPECT_TRUE(
        FoldAndAnswer(*task_, {task_->position(), record.key, record.value, 0}, ignored).ok());
    return **task_->BeginCheckpoint();
  }
  void Commit(const Checkpoint& checkpoint) {
    const StatusOr<Offset> end = log_->CommitTransaction(checkpoint, end_);
    ASSERT_TRUE(end.ok()) << end.status();
    end_ = *end;
  }
  bool WeightsAre(float weight) const {
    bool are = false;
    const auto seen = followed_->Read([&](const FollowedShard::View& view) {
      are = std::ranges::all_of(view.weights, [weight](float each) { return each == weight; });
    });
    EXPECT_TRUE(seen.ok()) << seen.status();
    return are;
  }
  bool WeightsBecome(float weight) const {
    return Until([&] { return WeightsAre(weight); });
  }

  MockCluster cluster_;
  JobConfig config_;
  ServerOptions options_ = SmallServer();
  MemoryByteMap store_;
  std::unique_ptr<ShardTask> task_;
  const std::atomic<bool> stop_ = false;
  Wakeup wakeup_;
  std::unique_ptr<KafkaCheckpointLog> log_;
  std::unique_ptr<FollowedShard> followed_;
  Offset end_ = 0;
};

TEST_F(FollowedShardTest, ShowsACheckpointOnlyWhenAllOfItHasCome) {
  Follow();
  Commit(CheckpointOf(1));
  ASSERT_TRUE(WeightsBecome(1));
  Checkpoint blocks = CheckpointOf(2);
  Checkpoint state = blocks;
  state.entries = {blocks.entries.back()};
  blocks.entries.pop_back();
  Commit(blocks);
  // It reads within milliseconds, and shows nothing of it.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(WeightsAre(1));
  Commit(state);
  EXPECT_TRUE(WeightsBecome(2));
}

TEST_F(FollowedShardTest, ShowsTheCheckpointThatExistsAndThenTheNewest) {
  Commit(CheckpointOf(1));
  Follow();
  EXPECT_TRUE(WeightsBecome(1));
  Commit(CheckpointOf(2));
  EXPECT_TRUE(WeightsBecome(2));
  EXPECT_TRUE(*followed_->Read([](const auto& view) { EXPECT_FALSE(view.has_ended); }));
}

TEST_F(FollowedShardTest, AShardWithoutACheckpointIsAsItWasInitialized) {
  Follow();
  EXPECT_TRUE(WeightsBecome(0));
}

TEST_F(FollowedShardTest, ACheckpointThatCannotBeLoadedIsAnErrorThatLasts) {
  Checkpoint foreign;
  foreign.entries.push_back({kStateKeyPrefix + std::string(4, '\0'), "no state"});
  Commit(foreign);
  Follow();
  EXPECT_TRUE(Until([&] { return !followed_->status().ok(); }));
}

}  // namespace
}  // namespace millrace
