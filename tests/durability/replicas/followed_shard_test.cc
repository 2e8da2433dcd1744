// A shard that another process hosts, on librdkafka's mock cluster.
#include "durability/replicas/followed_shard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "stores/memory_byte_map.h"
#include "tasks/task_options.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

class FollowedShardTest : public testing::Test {
 protected:
  FollowedShardTest() {
    config_.set_name("followed");
    config_.set_brokers(cluster_.options().brokers);
    for (const TopicPlan& plan : PlanTopics("followed", 1, 1)) {
      cluster_.CreateTopic(plan.name, static_cast<int>(plan.partitions));
    }
    JobFeatures features;
    features.set_epoch(config_.epoch());
    features.set_workers(1);
    features.set_feature_count(2);
    for (const char* name : {"no", "yes"}) features.mutable_spec()->add_classes(name);
    for (const char* name : {"x", "z"}) features.mutable_spec()->add_numeric(name);
    JobTraining training;
    training.set_epoch(config_.epoch());
    training.set_shards(1);
    options_ = MakeServerOptions(features, training, 0);
    log_ = *KafkaCheckpointLog::Create(config_, 0, stop_);
    task_ = std::make_unique<ShardTask>(options_, store_);
    EXPECT_TRUE(task_->StartReplay(0, 0).ok());
  }

  // A checkpoint in which every weight has this value.
  void Commit(float value) {
    std::vector<OutgoingRecord> out;
    const Offset next = task_->position();
    ASSERT_TRUE(task_->ProcessGradient({next, "key", "no gradient", 0}, out).ok());
    std::optional<Checkpoint> checkpoint = task_->BeginCheckpoint();
    ASSERT_TRUE(checkpoint.has_value());
    ParameterShard weights = task_->processor().shard();
    std::ranges::fill(weights.mutable_weights(), value);
    std::vector<Checkpoint::Entry> entries;
    for (size_t block = 0; block < weights.block_count(); ++block) {
      ParameterShard::Encoded encoded = weights.EncodeBlock(block);
      entries.push_back({std::move(encoded.key), std::move(encoded.value)});
    }
    std::ranges::move(checkpoint->entries, std::back_inserter(entries));
    checkpoint->entries = std::move(entries);
    const StatusOr<Offset> end = log_->CommitTransaction(*checkpoint, 0);
    ASSERT_TRUE(end.ok()) << end.status();
    task_->CheckpointDone(*checkpoint);
  }

  // The first weight of the view, once it has this value.
  static bool Comes(const FollowedShard& followed, float value) {
    return Until([&] {
      const auto view = followed.Latest();
      return view.ok() && *view != nullptr && (*view)->weights.front() == value;
    });
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
  ServerOptions options_;
  MemoryByteMap store_;
  std::unique_ptr<KafkaCheckpointLog> log_;
  std::unique_ptr<ShardTask> task_;
  Wakeup wakeup_;
};

TEST_F(FollowedShardTest, ShowsTheShardAsItsLastCheckpointHasIt) {
  Commit(2);
  auto followed = FollowedShard::Create(config_, options_, {}, &wakeup_, stop_);
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_TRUE(Comes(**followed, 2));
  Commit(3);
  Commit(4);
  EXPECT_TRUE(Comes(**followed, 4));
  const auto view = *(*followed)->Latest();
  EXPECT_EQ(view->weights, std::vector<float>(view->range.size(), 4));
  EXPECT_FALSE(view->all_left);
}

TEST_F(FollowedShardTest, AShardWithoutACheckpointIsAsItWasInitialized) {
  auto followed = FollowedShard::Create(config_, options_, {}, &wakeup_, stop_);
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_TRUE(Comes(**followed, 0));
}

TEST_F(FollowedShardTest, ACheckpointThatCannotBeLoadedIsAnErrorThatLasts) {
  Checkpoint foreign;
  foreign.entries.push_back({kStateKeyPrefix + std::string(4, '\0'), "no state"});
  ASSERT_TRUE(log_->CommitTransaction(foreign, 0).ok());
  auto followed = FollowedShard::Create(config_, options_, {}, &wakeup_, stop_);
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_TRUE(Until([&] { return !(*followed)->Latest().ok(); }));
}

}  // namespace
}  // namespace millrace
