#include "server/shard_folds.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tests/processors/random_log.h"
#include "tests/tasks/shard_task_fixture.h"

namespace millrace {
namespace {

// Shards that a process hosts.
struct SomeShards {
  explicit SomeShards(ShardId count, const ServerOptions& options) {
    for (ShardId shard = 0; shard < count; ++shard) {
      stores.push_back(std::make_unique<MemoryByteMap>());
      tasks.push_back(std::make_unique<ShardTask>(options, *stores.back()));
      EXPECT_TRUE(tasks.back()->StartReplay(0, 0).ok());
      feeds.emplace(shard, *tasks.back());
    }
  }

  std::vector<std::unique_ptr<MemoryByteMap>> stores;
  std::vector<std::unique_ptr<ShardTask>> tasks;
  std::map<ShardId, ShardFeed> feeds;
};

GradientRecord RecordAt(const std::vector<LogRecord>& log, size_t offset) {
  return {static_cast<Offset>(offset), log[offset].key, log[offset].value,
          10 * static_cast<int64_t>(offset)};
}

// Of each shard the answers to all its workers, in their order.
using Answers = std::map<std::string, int>;

void Count(const OutgoingRecord& record, Answers& answers) {
  ++answers[std::to_string(record.partition) + "/" + record.key + "/" + record.value];
}

class ShardFoldsTest : public testing::TestWithParam<ShardId> {};

TEST_P(ShardFoldsTest, EndInTheBytesOfOneShardAfterTheOtherAndGiveTheSameAnswers) {
  const ServerOptions options = SmallServer();
  const ShardId shards = GetParam();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<LogRecord>> logs;
    for (ShardId shard = 0; shard < shards; ++shard) {
      logs.push_back(RandomLog(random, options, 60));
    }
    SomeShards ours(shards, options);
    SomeShards theirs(shards, options);
    Answers our_answers;
    Answers their_answers;
    ShardFolds folds(ours.feeds, RecordSink([&](const OutgoingRecord& record) {
                       Count(record, our_answers);
                       return absl::OkStatus();
                     }));
    std::vector<size_t> read(shards);
    for (bool more = true; more;) {
      more = false;
      // A poll.
      for (ShardId shard = 0; shard < shards; ++shard) {
        for (auto left = random() % 7; left > 0 && read[shard] < logs[shard].size(); --left) {
          const GradientRecord record = RecordAt(logs[shard], read[shard]++);
          ASSERT_TRUE(folds.Take(shard, record).ok());
          std::vector<OutgoingRecord> out;
          ASSERT_TRUE(theirs.feeds.at(shard).Take(record, out).ok());
          for (const OutgoingRecord& answer : out) Count(answer, their_answers);
        }
        more = more || read[shard] < logs[shard].size();
      }
      ASSERT_TRUE(folds.Fold().ok());
      ASSERT_TRUE(folds.AnswerDue().ok());
      for (auto& [shard, feed] : theirs.feeds) {
        std::vector<OutgoingRecord> out;
        ASSERT_TRUE(feed.AnswerDue(out).ok());
        for (const OutgoingRecord& answer : out) Count(answer, their_answers);
      }
    }
    for (ShardId shard = 0; shard < shards; ++shard) {
      EXPECT_EQ(AllBytes(*ours.tasks[shard]), AllBytes(*theirs.tasks[shard])) << seed;
    }
    EXPECT_EQ(our_answers, their_answers) << seed;
    EXPECT_FALSE(our_answers.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(OneAndSome, ShardFoldsTest, testing::Values(1, 4));

TEST(ShardFolds, ReturnTheErrorOfAShardAlsoOfRecordsThatWereFoldedInThePoll) {
  const ServerOptions options = SmallServer();
  std::mt19937 random(1);
  const std::vector<LogRecord> log = RandomLog(random, options, 20);
  SomeShards shards(2, options);
  std::vector<OutgoingRecord> out;
  ShardFolds folds(shards.feeds, out);
  ASSERT_TRUE(folds.Take(0, RecordAt(log, 0)).ok());
  ASSERT_TRUE(folds.Take(1, RecordAt(log, 5)).ok());  // those before are missing
  folds.FoldNow();
  EXPECT_TRUE(absl::IsDataLoss(folds.Fold()));
  EXPECT_EQ(shards.tasks[0]->position(), 1);
}

}  // namespace
}  // namespace millrace
