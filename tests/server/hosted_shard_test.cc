// How long a shard says that it took to come back.
#include "server/hosted_shard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "tasks/task_options.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

TEST(RecoveryPhases, TheTimeForACopyIsNotThatForParameters) {
  MockCluster cluster;
  std::string pattern = testing::TempDir() + "millrace_phases_XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern.data());
  JobConfig config;
  config.set_name("phases");
  config.set_brokers(cluster.options().brokers);
  config.mutable_server()->set_data_dir(folder);
  for (const TopicPlan& plan : PlanTopics("phases", 1, 1)) {
    cluster.CreateTopic(plan.name, static_cast<int>(plan.partitions));
  }
  JobFeatures features;
  features.set_epoch(config.epoch());
  features.set_workers(1);
  features.set_feature_count(2);
  for (const char* name : {"no", "yes"}) features.mutable_spec()->add_classes(name);
  for (const char* name : {"x", "z"}) features.mutable_spec()->add_numeric(name);
  JobTraining training;
  training.set_epoch(config.epoch());
  training.set_shards(1);

  // Nobody has a copy, which takes a while to find out.
  constexpr std::chrono::milliseconds kSlow(400);
  const FetchCopy fetch = [&](ShardId, const std::string&) -> StatusOr<std::optional<std::string>> {
    std::this_thread::sleep_for(kSlow);
    return std::optional<std::string>();
  };
  Wakeup wakeup;
  const std::atomic<bool> stop = false;
  const auto begin = std::chrono::steady_clock::now();
  const auto hosted =
      HostedShard::Open(config, MakeServerOptions(features, training, 0), fetch, &wakeup, stop);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  const RecoveryPhases& phases = (*hosted)->phases();
  EXPECT_GE(phases.restore_s, 0.4);
  EXPECT_GT(phases.parameters_s, 0);
  EXPECT_LE(phases.restore_s + phases.parameters_s, all.count());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace millrace
