// Copies that are kept of other servers' shards, on librdkafka's mock cluster.
#include "durability/replicas/replicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/strings/match.h"
#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/processors/server_fixture.h"
#include "tests/stores/temporary_folder.h"
#include "tests/tasks/fold_and_answer.h"
#include "topics/topics.h"

namespace millrace {
namespace {

TEST(Replicator, OffersAReplicaOnceItHasAWholeCheckpoint) {
  const TemporaryFolder folder;
  MockCluster cluster;
  JobConfig config;
  config.set_name("replicated");
  config.set_brokers(cluster.options().brokers);
  config.mutable_server()->set_data_dir(folder.path());
  for (const TopicPlan& plan : PlanTopics("replicated", 1, TopicSizes())) {
    cluster.CreateTopic(plan.name, static_cast<int>(plan.partitions));
  }
  Replicator replicator(config, {0}, 1);
  StatusOr<Offset> offered;
  ASSERT_TRUE(Until([&] {
    offered = replicator.OffsetOf(0);
    return offered.ok() || absl::StrContains(offered.status().message(), "no complete checkpoint");
  }));
  EXPECT_TRUE(absl::IsNotFound(offered.status())) << offered.value_or(Offset(-1));

  MemoryByteMap store;
  ShardTask task(SmallServer(), store);
  ASSERT_TRUE(task.StartReplay(0, 0).ok());
  std::vector<OutgoingRecord> ignored;
  const LogRecord record = RecordOf(Message(Gradient::kAsk, 0, 0));
  ASSERT_TRUE(FoldAndAnswer(task, {0, record.key, record.value, 0}, ignored).ok());
  const std::atomic<bool> stop = false;
  const auto log = KafkaCheckpointLog::Create(config, 0, stop);
  ASSERT_TRUE(log.ok()) << log.status();
  const StatusOr<Offset> end = (*log)->CommitTransaction(**task.BeginCheckpoint(), 0);
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_TRUE(Until([&] { return (offered = replicator.OffsetOf(0)).ok(); }));
  EXPECT_EQ(*offered, *end);
}

}  // namespace
}  // namespace millrace
