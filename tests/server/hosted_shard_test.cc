// A shard with its store and its checkpoints, on librdkafka's mock cluster.
#include "server/hosted_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error_marks.h"
#include "tasks/task_options.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/stores/temporary_folder.h"
#include "tests/tasks/fold_and_answer.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class HostedShardTest : public testing::Test {
 protected:
  HostedShardTest() {
    config_.set_name("hosted");
    config_.set_brokers(cluster_.options().brokers);
    config_.mutable_server()->set_data_dir(folder_.path());
    config_.mutable_server()->set_checkpoint_interval_s(0);
    for (const TopicPlan& plan : PlanTopics("hosted", 1, TopicSizes())) {
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
  }

  StatusOr<std::unique_ptr<HostedShard>> Open(uint64_t generation = 1,
                                              const FetchCopy& fetch = nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<HostedShard> hosted,
        HostedShard::Open(config_, options_, generation, fetch, &wakeup_, stop_));
    MILLRACE_RETURN_IF_ERROR(
        hosted->StartReplay(config_, options_, "", 0, hosted->task().position()));
    return hosted;
  }

  // A record that changes the shard's state.
  static void Process(HostedShard& hosted) {
    std::vector<OutgoingRecord> out;
    const Status processed =
        FoldAndAnswer(hosted.task(), {hosted.task().position(), "key", "no gradient", 0}, out);
    ASSERT_TRUE(processed.ok()) << processed;
  }

  // The first error of a checkpoint.
  Status FirstError(HostedShard& hosted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      Status status = hosted.Checkpoint(std::chrono::steady_clock::now()).status();
      if (!status.ok()) return status;
      wakeup_.WaitFor(std::chrono::milliseconds(10));
    }
    return absl::OkStatus();
  }

  const TemporaryFolder folder_;
  MockCluster cluster_;
  JobConfig config_;
  ServerOptions options_;
  Wakeup wakeup_;
  std::atomic<bool> stop_ = false;
};

TEST_F(HostedShardTest, TheTimeForACopyIsNotThatForParameters) {
  // Nobody has a copy, which takes a while to find out.
  constexpr std::chrono::milliseconds kSlow(400);
  const FetchCopy fetch = [&](ShardId, const std::string&) -> StatusOr<std::optional<std::string>> {
    std::this_thread::sleep_for(kSlow);
    return std::optional<std::string>();
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto hosted = Open(1, fetch);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  const RecoveryPhases& phases = (*hosted)->phases();
  EXPECT_GE(phases.restore_s, 0.4);
  EXPECT_GT(phases.parameters_s, 0);
  EXPECT_LE(phases.restore_s + phases.parameters_s, all.count());
}

TEST_F(HostedShardTest, ACheckpointThatMayNotBeWrittenEndsTheServerWithTheReason) {
  auto hosted = Open();
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  cluster_.Fail(Request::kAddPartitionsToTransaction,
                {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  Process(**hosted);
  const Status error = FirstError(**hosted);
  EXPECT_FALSE(error.ok()) << "a checkpoint that can never succeed was tried again";
  EXPECT_THAT(std::string(error.message()), HasSubstr("uthoriz"));
  EXPECT_THAT(std::string(error.message()), HasSubstr("shard 0"));
  EXPECT_FALSE(IsFenced(error));
}

TEST_F(HostedShardTest, WhoWasFencedStopsWithAMarkOnTheError) {
  auto hosted = Open();
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
  Process(**hosted);
  const Status error = FirstError(**hosted);
  EXPECT_TRUE(IsFenced(error)) << error;
  EXPECT_THAT(std::string(error.message()), HasSubstr("taken over"));
}

TEST_F(HostedShardTest, SavesEverythingWithoutWaiting) {
  auto hosted = Open();
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  Process(**hosted);
  Process(**hosted);
  EXPECT_FALSE((*hosted)->task().saved());
  StatusOr<bool> saved = false;
  while (saved.ok() && !*saved) {
    saved = (*hosted)->AdvanceSave(std::chrono::steady_clock::now());
    wakeup_.WaitFor(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE((*hosted)->task().saved());
}

TEST_F(HostedShardTest, NothingIsProcessedUntilEverythingIsSaved) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // librdkafka has threads
  auto hosted = Open();
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  Process(**hosted);
  const auto advance = [&] { return (*hosted)->AdvanceSave(std::chrono::steady_clock::now()); };
  StatusOr<bool> saved = advance();
  ASSERT_TRUE(saved.ok() && !*saved) << saved.status();
  EXPECT_DEATH(
      {
        Process(**hosted);
        (void)advance();
      },
      "broken invariant");
  while (saved.ok() && !*saved) {
    saved = advance();
    wakeup_.WaitFor(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(saved.ok()) << saved.status();
  Process(**hosted);
  EXPECT_TRUE(advance().ok()) << "of the next save";
}

TEST_F(HostedShardTest, AStoreThatDeletedTopicsHaveLeftIsRefusedAndKept) {
  {
    auto hosted = Open(1);
    ASSERT_TRUE(hosted.ok()) << hosted.status();
    Process(**hosted);
    ASSERT_TRUE((*hosted)->FinalCheckpoint().ok());
  }
  const Status refused = Open(2).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_.path()));
  EXPECT_TRUE(Open(1).ok()) << "it is as it was";
}

// The job topic is the old one, and so is its generation; and offsets tell nothing any more.
TEST_F(HostedShardTest, AStoreOfParametersThatWereRecreatedAndHaveGrownIsRefusedAndKept) {
  {
    auto hosted = Open();
    ASSERT_TRUE(hosted.ok()) << hosted.status();
    Process(**hosted);
    ASSERT_TRUE((*hosted)->FinalCheckpoint().ok());
  }
  {
    auto hosted = Open();
    ASSERT_TRUE(hosted.ok()) << "nothing was recreated: " << hosted.status();
    Process(**hosted);
    ASSERT_TRUE((*hosted)->FinalCheckpoint().ok());
  }
  MockCluster recreated;
  for (const TopicPlan& plan : PlanTopics("hosted", 1, TopicSizes())) {
    recreated.CreateTopic(plan.name, static_cast<int>(plan.partitions));
  }
  config_.set_brokers(recreated.options().brokers);
  const TemporaryFolder other_disk;
  config_.mutable_server()->set_data_dir(other_disk.path());
  {
    auto hosted = Open();
    ASSERT_TRUE(hosted.ok()) << hosted.status();
    for (int i = 0; i < 5; ++i) {
      Process(**hosted);
      ASSERT_TRUE((*hosted)->FinalCheckpoint().ok());
    }
  }
  config_.mutable_server()->set_data_dir(folder_.path());
  const Status refused = Open().status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("hosted.parameters, partition 0"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a copy of an earlier topic"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_.path()));
  config_.set_brokers(cluster_.options().brokers);
  EXPECT_TRUE(Open().ok()) << "it is as it was";
}

}  // namespace
}  // namespace millrace
