// A shard that starts again, from whatever copy there is, at any point.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tasks/state_codec.h"
#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/shard_task_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- recovery ----

// A server that crashes anywhere, with whatever copy its disk holds (the own one, an older one,
// none), is after recovery the server that never crashed: its state, its answers and its future
// checkpoints are the same bytes.
TEST_F(ShardTaskTest, RecoveredFromAnyCopyAtAnyPointItIsTheServerThatNeverCrashed) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    const char* const modes[] = {"sequential", "eventual", "bounded:2"};
    ServerOptions options = SmallServer(*ConsistencyPolicy::Parse(modes[trial % 3]));
    options.optimizer.kind = OptimizerOptions::Kind::kAdam;
    if (trial % 10 == 0) options.range = {0, 9000};  // three blocks
    if (trial % 2 == 1) {
      options.embeddings = {.seed = 5, .initial_limit = {0, 1, 1}};
      options.embeddings->cache_bytes = trial % 4 == 1 ? 500 : 100'000;
      if (trial % 3 == 0) options.embeddings->admit_after = 2;
      if (trial % 5 == 0) options.embeddings->expire_after_ms = 100;
    }
    options.max_frame_bytes = trial % 2 == 0 ? kMaxFrameBytes : 300;
    Use(options);
    const MemoryByteMap no_disk;
    ShardTask live(options, no_disk);
    std::vector<OutgoingRecord> live_out;
    ASSERT_TRUE(live.StartReplay(0, 0).ok());
    std::unique_ptr<MemoryByteMap> old_copy = store_->Clone();

    for (const LogRecord& record : RandomLog(random, options, trial % 10 == 0 ? 30 : 80)) {
      AppendAndFold(record);
      ASSERT_TRUE(Fold(live, End() - 1, live_out).ok());
      ASSERT_TRUE(Take(out_) == Take(live_out));
      if (random() % 30 == 0) old_copy = store_->Clone();
      // A checkpoint that gets no further than its first or second step ends in a crash.
      const auto steps = static_cast<int>(random() % 36);
      if (1 <= steps && steps <= 3) Checkpoint(steps);
      const bool crash = steps == 1 || steps == 2 || random() % 8 == 0;
      if (!crash) continue;

      const uint64_t copy = random() % 3;
      if (copy == 1) store_ = old_copy->Clone();
      if (copy == 2) store_ = std::make_unique<MemoryByteMap>();
      StatusOr<std::unique_ptr<ShardTask>> recovered = Recover(*store_);
      ASSERT_TRUE(recovered.ok()) << recovered.status();
      ASSERT_TRUE(AllBytes(**recovered) == AllBytes(live)) << "trial " << trial;
      task_ = *std::move(recovered);
      ASSERT_TRUE(task_->Announce(out_).ok());
      ASSERT_TRUE(live.Announce(live_out).ok());
      ASSERT_TRUE(Take(out_) == Take(live_out));
    }
    ASSERT_TRUE(AllBytes(*task_) == AllBytes(live));
    Checkpoint();
    const StatusOr<std::unique_ptr<ShardTask>> copy = Recover(*store_);
    ASSERT_TRUE(copy.ok()) << copy.status();
    ASSERT_TRUE(AllBytes(**copy) == AllBytes(live)) << "the store alone must suffice";
  }
}

TEST_F(ShardTaskTest, DeadLettersAreInTheCommittedTransactionsOnceWhateverCrashes) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    Use(SmallServer(ConsistencyPolicy::Eventual()));
    for (int step = 0; step < 60; ++step) {
      LogRecord record = RecordOf(Message(Gradient::kAsk, 0, 0));
      if (random() % 3 == 0) record = {"key", "damaged " + std::to_string(step)};
      AppendAndFold(record);
      const auto steps = static_cast<int>(random() % 24);
      if (1 <= steps && steps <= 3) Checkpoint(steps);
      const bool crash = steps == 1 || steps == 2 || random() % 8 == 0;
      if (!crash) continue;
      StatusOr<std::unique_ptr<ShardTask>> recovered = Recover(*store_);
      ASSERT_TRUE(recovered.ok()) << recovered.status();
      task_ = *std::move(recovered);
    }
    Checkpoint();
    std::vector<std::string> expected;
    std::vector<std::string> found;
    for (const LogRecord& record : gradients_) {
      if (record.key == "key") expected.push_back(record.value);
    }
    for (const std::string& bytes : log_.dead_letters) {
      DeadLetter letter;
      ASSERT_TRUE(letter.ParseFromString(std::string(ParseFrame(bytes)->body)));
      found.push_back(letter.value());
    }
    ASSERT_EQ(found, expected);
    ASSERT_EQ(task_->processor().counters().refused(), expected.size());
  }
}

TEST_F(ShardTaskTest, AJobThatHasNotBegunBeginsAtTheBeginning) {
  MemoryByteMap nothing;
  const StatusOr<std::unique_ptr<ShardTask>> task = Recover(nothing);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->position(), 0);
  EXPECT_EQ((*task)->replayed_records(), 0u);
}

TEST_F(ShardTaskTest, RecoveryReplaysOnlyWhatStandsAfterTheCheckpoint) {
  AppendAndFoldRound();
  Checkpoint();
  AppendAndFoldRound();
  const StatusOr<std::unique_ptr<ShardTask>> task = Recover(*store_);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->replayed_records(), 3u);
  EXPECT_EQ((*task)->position(), 6);
}

TEST_F(ShardTaskTest, TheStoreSavesReadingWhatItHasOfParameters) {
  AppendAndFoldRound();
  Checkpoint();
  EXPECT_EQ(*ReadParametersOffset(*store_), static_cast<Offset>(log_.parameters.size()));
}

TEST_F(ShardTaskTest, ChunksOfAnOlderLongerStateAreIgnored) {
  options_.max_frame_bytes = 150;
  Use(options_);
  Gradient large = Update(0, 0, std::vector<float>(6, 1), kRange);
  for (int i = 0; i < 20; ++i)
    large.mutable_update()->add_dead_letters()->set_reason("held with the update");
  AppendAndFold(large);
  Checkpoint();
  const auto state_chunks = [&] {
    size_t chunks = 0;
    EXPECT_TRUE(store_
                    ->Scan("state", "statf",
                           [&](std::string_view, std::string_view) {
                             ++chunks;
                             return true;
                           })
                    .ok());
    return chunks;
  };
  const size_t before = state_chunks();
  for (const WorkerId worker : std::vector<WorkerId>{1, 2}) {
    AppendAndFold(Update(worker, 0, std::vector<float>(6, 1), kRange));
  }
  Checkpoint();
  ASSERT_EQ(state_chunks(), before);
  MemoryByteMap nothing;
  for (MemoryByteMap* copy : {store_.get(), &nothing}) {
    const StatusOr<std::unique_ptr<ShardTask>> task = Recover(*copy);
    ASSERT_TRUE(task.ok()) << task.status();
    EXPECT_EQ(AllBytes(**task), AllBytes(*task_));
  }
}

// ---- what is never skipped ----

TEST_F(ShardTaskTest, APositionOutsideTheLogIsAnErrorThatSaysWhatToDo) {
  AppendAndFoldRound();
  Checkpoint();  // at 3
  for (const auto& [begin, end] : std::vector<std::pair<Offset, Offset>>{{4, 9}, {0, 2}, {0, 0}}) {
    const StatusOr<std::unique_ptr<ShardTask>> task = Load(*store_);
    ASSERT_TRUE(task.ok());
    const Status status = (*task)->StartReplay(begin, end);
    ASSERT_TRUE(absl::IsDataLoss(status)) << begin << ", " << end;
    EXPECT_THAT(std::string(status.message()), HasSubstr("partition 0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("checkpoint is at offset 3"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove the server's data folder"));
  }
  for (const auto& [begin, end] : std::vector<std::pair<Offset, Offset>>{{3, 3}, {0, 3}, {3, 9}}) {
    const StatusOr<std::unique_ptr<ShardTask>> task = Load(*store_);
    EXPECT_TRUE((*task)->StartReplay(begin, end).ok()) << begin << ", " << end;
  }
}

TEST_F(ShardTaskTest, ReadingBeginsAtTheRecordInFrontOfThePositionIfItIsStillThere) {
  AppendAndFoldRound();
  Checkpoint();  // at 3
  for (const auto& [begin, first] :
       std::vector<std::pair<Offset, Offset>>{{0, 2}, {1, 2}, {2, 2}, {3, 3}}) {
    const StatusOr<std::unique_ptr<ShardTask>> task = Load(*store_);
    ASSERT_TRUE((*task)->StartReplay(begin, 5).ok());
    EXPECT_EQ((*task)->gradients_position(), first);
  }
}

TEST_F(ShardTaskTest, AnotherRecordInFrontOfThePositionIsAnError) {
  AppendAndFoldRound();
  Checkpoint();
  const LogRecord good = gradients_[2];
  EXPECT_TRUE(Recover(*store_).ok());
  std::vector<LogRecord> others = {{good.key, good.value + "x"},
                                   {good.key + "x", good.value},
                                   RecordOf(Update(2, 7, std::vector<float>(6, 1), kRange)),
                                   RecordOf(Message(Gradient::kAsk, 2, 0))};
  others.push_back(good);
  others.back().value[10] = static_cast<char>(others.back().value[10] ^ 1);
  for (const LogRecord& other : others) {
    gradients_[2] = other;
    const Status status = Recover(*store_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("offset 2"));
  }
}

// Offsets do not tell: the log has grown again beyond the position.
TEST_F(ShardTaskTest, AnotherRecordInThePlaceOfTheLastOneThatWasFoldedIsAnError) {
  ServerOptions options = SmallServer();
  options.gradients_topic = "a.layout-1.gradients";
  Use(options);
  AppendAndFoldRound();
  Checkpoint();
  AppendAndFoldRound();
  EXPECT_EQ(task_->Recheck(), 5);
  EXPECT_FALSE(task_->replayed()) << "nobody is answered now";
  EXPECT_TRUE(Fold(*task_, 5, out_).ok()) << "it is the same";
  EXPECT_TRUE(task_->replayed());
  EXPECT_EQ(task_->Recheck(), 5);
  gradients_[5] = RecordOf(Update(0, 2, std::vector<float>(6, 1), kRange));
  const Status status = Fold(*task_, 5, out_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.layout-1.gradients, partition 0, offset 5"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost its end"));
}

TEST_F(ShardTaskTest, NothingIsReadAgainThatTheLogHasNotHadAtTheStart) {
  EXPECT_EQ(task_->Recheck(), 0);
  AppendAndFoldRound();
  Checkpoint();
  const StatusOr<std::unique_ptr<ShardTask>> task = Load(*store_);
  ASSERT_TRUE((*task)->StartReplay(3, 3).ok());
  EXPECT_EQ((*task)->Recheck(), 3);
  EXPECT_TRUE((*task)->replayed());
}

TEST_F(ShardTaskTest, MissingRecordsAreAnError) {
  AppendAndFoldRound();
  Append(gradients_[0]);
  Append(gradients_[0]);
  const Status status = Fold(*task_, 4, out_);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[3, 4) are missing"));
  EXPECT_EQ(task_->position(), 3);
  EXPECT_TRUE(Fold(*task_, 3, out_).ok());
  EXPECT_TRUE(Fold(*task_, 4, out_).ok());
}

TEST_F(ShardTaskTest, RecordsThatAreReadAgainAreNotFoldedAgain) {
  AppendAndFoldRound();
  const std::string before = AllBytes(*task_);
  out_.clear();
  for (Offset offset = 0; offset < End(); ++offset) EXPECT_TRUE(Fold(*task_, offset, out_).ok());
  EXPECT_EQ(AllBytes(*task_), before);
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(ShardTaskTest, ACopyOfAnotherJobIsAnError) {
  AppendAndFoldRound();
  Checkpoint();
  const auto load = [&](const ServerOptions& options) {
    return ShardTask(options, *store_).Load();
  };
  ServerOptions other = options_;
  other.epoch = 2;
  EXPECT_TRUE(absl::IsDataLoss(load(other)));
  other = options_;
  other.range = {0, 8};
  EXPECT_TRUE(absl::IsDataLoss(load(other)));
  other = options_;
  other.optimizer.kind = OptimizerOptions::Kind::kAdam;
  EXPECT_TRUE(absl::IsDataLoss(load(other))) << "its slots are missing";
}

TEST_F(ShardTaskTest, BlocksWithoutTheirStateAreAnError) {
  AppendAndFoldRound();
  Checkpoint();
  const Checkpoint::Entry block = log_.parameters[0];
  ASSERT_TRUE(ParameterShard::IsBlockKey(block.key));
  MemoryByteMap store;
  WriteBatch batch;
  batch.Put(block.key, block.value);
  ASSERT_TRUE(store.Write(batch).ok());
  EXPECT_TRUE(absl::IsDataLoss(ShardTask(options_, store).Load()));
}

TEST_F(ShardTaskTest, AStateWithAPartMissingIsAnError) {
  options_.max_frame_bytes = 30;
  Use(options_);
  AppendAndFoldRound();
  Checkpoint();
  std::vector<size_t> chunks;
  for (size_t i = 0; i < log_.parameters.size(); ++i) {
    if (log_.parameters[i].key.starts_with("state")) chunks.push_back(i);
  }
  ASSERT_GT(chunks.size(), 2u);
  MemoryByteMap nothing;
  EXPECT_TRUE(Load(nothing).ok());
  for (size_t missing : chunks) {
    MemoryByteMap empty;
    const Checkpoint::Entry entry = std::exchange(log_.parameters[missing], {});
    EXPECT_TRUE(absl::IsDataLoss(Load(empty).status())) << "chunk at " << missing;
    log_.parameters[missing] = entry;
  }
}

TEST_F(ShardTaskTest, ADamagedBlockIsAnError) {
  MemoryByteMap store;
  WriteBatch batch;
  batch.Put("p" + EncodeBigEndian64(0), "damaged");
  ASSERT_TRUE(store.Write(batch).ok());
  const Status status = ShardTask(options_, store).Load();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 0: "), HasSubstr("a parameter block"),
                    HasSubstr("Move the data folder of its server away")));
}

TEST_F(ShardTaskTest, AStateThatIsNoFrameIsAnErrorThatSaysSo) {
  AppendAndFoldRound();
  Checkpoint();
  WriteBatch batch;
  batch.Put(StateKey(0), "damaged");
  ASSERT_TRUE(store_->Write(batch).ok());
  const Status status = ShardTask(options_, *store_).Load();
  EXPECT_EQ(status.code(), ParseFrame("damaged").status().code());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 0: "), HasSubstr(TextOf(ParseFrame("damaged").status())),
                    HasSubstr("Move the data folder of its server away")));
}

}  // namespace
}  // namespace millrace
