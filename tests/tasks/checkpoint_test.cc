#include "tasks/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tests/stores/failing_byte_map.h"
#include "tests/tasks/memory_checkpoint_log.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::map<std::string, std::string> Content(const OrderedByteMap& store) {
  std::map<std::string, std::string> content;
  const Status status = store.Scan("", "", [&](std::string_view key, std::string_view value) {
    content[std::string(key)] = value;
    return true;
  });
  EXPECT_TRUE(status.ok());
  return content;
}

Checkpoint SomeCheckpoint(Offset position = 10) {
  Checkpoint checkpoint;
  checkpoint.position = position;
  checkpoint.entries = {{"p0", "block"}, {"state0", "state"}};
  checkpoint.dead_letters = {"letter"};
  checkpoint.blocks = {0};
  return checkpoint;
}

class CheckpointRunTest : public ::testing::Test {
 protected:
  MemoryCheckpointLog log_;
  FailingByteMap store_;
};

TEST_F(CheckpointRunTest, CommitsThenStoresThenTrims) {
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  EXPECT_THAT(log_.calls, IsEmpty()) << "nothing happens before the first step";

  ASSERT_TRUE(run.Step().ok());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
  EXPECT_THAT(Content(store_), IsEmpty()) << "the store must stay a prefix of parameters";
  EXPECT_FALSE(run.done());

  ASSERT_TRUE(run.Step().ok());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
  EXPECT_EQ(
      Content(store_),
      (std::map<std::string, std::string>{
          {"p0", "block"}, {"state0", "state"}, {kParametersOffsetKey, EncodeBigEndian64(3)}}));
  EXPECT_EQ(store_.unflushed_batches(), 0u) << "what is trimmed must not come from a lost batch";
  EXPECT_FALSE(run.done());

  ASSERT_TRUE(run.Step().ok());
  EXPECT_THAT(log_.calls, ElementsAre("commit", "trim 9"));
  EXPECT_TRUE(run.done());

  ASSERT_TRUE(run.Step().ok());
  EXPECT_EQ(log_.calls.size(), 2u) << "a run that is done does nothing";
}

TEST_F(CheckpointRunTest, RowsStateAndDeadLettersGoOutInOneTransaction) {
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  ASSERT_TRUE(run.Step().ok());
  ASSERT_EQ(log_.parameters.size(), 3u);
  EXPECT_EQ(log_.parameters[0].key, "p0");
  EXPECT_EQ(log_.parameters[1].key, "state0");
  EXPECT_THAT(log_.dead_letters, ElementsAre("letter"));
}

TEST_F(CheckpointRunTest, ALargeOneIsStoredInBatchesAndCountsWithTheLast) {
  Checkpoint checkpoint = SomeCheckpoint();
  checkpoint.rows = FrozenRows(/*table=*/0, /*width=*/2, /*slot_floats=*/1);
  const std::vector<float> floats = {1, 2, 3};
  for (const uint32_t id : {9, 4, 7}) checkpoint.rows.Add(id, /*place=*/id, {1, 0}, floats);
  CheckpointRun run(checkpoint, log_, store_, /*most_batch_bytes=*/1);
  ASSERT_TRUE(run.Step().ok());
  std::vector<std::string> keys;
  for (const Checkpoint::Entry& record : log_.parameters) keys.push_back(record.key);
  EXPECT_THAT(keys, ElementsAre(EmbeddingRowKey(0, 4), EmbeddingRowKey(0, 7), EmbeddingRowKey(0, 9),
                                "p0", "state0", ""));
  for (size_t stored = 1; stored < 5; ++stored) {
    ASSERT_TRUE(run.Step().ok());
    const std::map<std::string, std::string> content = Content(store_);
    EXPECT_EQ(content.size(), stored);
    EXPECT_FALSE(content.contains(kParametersOffsetKey)) << "it would miss the rest for ever";
    EXPECT_THAT(log_.calls, ElementsAre("commit")) << "the log must reach back to what is stored";
  }
  ASSERT_TRUE(run.Step().ok());
  std::map<std::string, std::string> content = Content(store_);
  EXPECT_EQ(content.size(), 6u);
  EXPECT_EQ(content[kParametersOffsetKey], EncodeBigEndian64(6));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(content[log_.parameters[i].key], log_.parameters[i].value);
  }
  EXPECT_EQ(store_.unflushed_batches(), 0u);
  ASSERT_TRUE(run.Step().ok());
  EXPECT_TRUE(run.done());
}

TEST_F(CheckpointRunTest, ManyRowsAreStoredAtOnceAndCountWithTheLastBatch) {
  Checkpoint checkpoint = SomeCheckpoint();
  checkpoint.rows = FrozenRows(/*table=*/0, /*width=*/2, /*slot_floats=*/1);
  const std::vector<float> floats = {1, 2, 3};
  for (const uint32_t id : {9, 4, 7}) checkpoint.rows.Add(id, /*place=*/id, {1, 0}, floats);
  // One of them has been recreated since it expired.
  checkpoint.expired = {EmbeddingRowKey(0, 7), EmbeddingRowKey(0, 8)};
  WriteBatch before;
  for (const std::string& key : checkpoint.expired) before.Put(key, "expired");
  ASSERT_TRUE(store_.Write(before).ok());
  ASSERT_TRUE(store_.Flush().ok());
  CheckpointRun run(checkpoint, log_, store_, /*most_batch_bytes=*/1, /*least_run_bytes=*/36);
  ASSERT_TRUE(run.Step().ok());
  std::vector<size_t> batches;  // the entries of the store after each
  while (log_.calls.size() == 1) {
    ASSERT_TRUE(run.Step().ok());
    if (store_.unflushed_batches() == 0) continue;
    batches.push_back(Content(store_).size());
    EXPECT_FALSE(Content(store_).contains(kParametersOffsetKey)) << "it would miss the rest";
  }
  EXPECT_THAT(batches, ElementsAre(1, 0, 3, 4)) << "two expired, the rows, a block, and the state";
  std::map<std::string, std::string> content = Content(store_);
  EXPECT_EQ(content.size(), 6u);
  EXPECT_EQ(content[kParametersOffsetKey], EncodeBigEndian64(8));
  for (size_t i = 2; i < 7; ++i) {
    EXPECT_EQ(content[log_.parameters[i].key], log_.parameters[i].value);
  }
  EXPECT_TRUE(run.done());
}

TEST_F(CheckpointRunTest, RowsThatAreTheWholeCheckpointCountToo) {
  Checkpoint checkpoint;
  checkpoint.position = 10;
  checkpoint.rows = FrozenRows(/*table=*/0, /*width=*/1, /*slot_floats=*/0);
  checkpoint.rows.Add(4, /*place=*/4, {1, 0}, std::vector<float>{1});
  CheckpointRun run(checkpoint, log_, store_, /*most_batch_bytes=*/100, /*least_run_bytes=*/1);
  while (!run.done()) ASSERT_TRUE(run.Step().ok());
  EXPECT_EQ(Content(store_).size(), 2u);
  EXPECT_EQ(Content(store_)[kParametersOffsetKey], EncodeBigEndian64(2));
}

TEST_F(CheckpointRunTest, KeepsTheRecordInFrontOfThePositionSinceRecoveryRecognisesTheLogByIt) {
  for (const auto& [position, call] : std::vector<std::pair<Offset, std::string>>{
           {1, "trim 0"}, {2, "trim 1"}, {1000, "trim 999"}}) {
    log_.calls.clear();
    CheckpointRun run(SomeCheckpoint(position), log_, store_);
    while (!run.done()) ASSERT_TRUE(run.Step().ok());
    EXPECT_THAT(log_.calls, ElementsAre("commit", call));
  }
}

TEST_F(CheckpointRunTest, AtTheBeginningOfTheLogThereIsNothingToTrim) {
  CheckpointRun run(SomeCheckpoint(0), log_, store_);
  while (!run.done()) ASSERT_TRUE(run.Step().ok());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
}

TEST_F(CheckpointRunTest, AfterAnAbortedTransactionNothingElseIsTouched) {
  log_.commit_status = absl::AbortedError("aborted");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  EXPECT_TRUE(absl::IsAborted(run.Step()));
  EXPECT_FALSE(run.done());
  EXPECT_THAT(Content(store_), IsEmpty());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
  EXPECT_EQ(run.checkpoint().blocks, std::vector<size_t>{0}) << "the task gets its blocks back";
}

TEST_F(CheckpointRunTest, AFencedServerTouchesNothingEither) {
  log_.commit_status = absl::FailedPreconditionError("fenced");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  EXPECT_TRUE(absl::IsFailedPrecondition(run.Step()));
  EXPECT_THAT(Content(store_), IsEmpty());
}

TEST_F(CheckpointRunTest, WhenTheDiskRefusesNothingIsTrimmed) {
  store_.write_status = absl::ResourceExhaustedError("disk full");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  ASSERT_TRUE(run.Step().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(run.Step()));
  EXPECT_FALSE(run.done());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
}

TEST_F(CheckpointRunTest, WhenTheDiskCannotFlushNothingIsTrimmed) {
  store_.flush_status = absl::UnavailableError("no");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  ASSERT_TRUE(run.Step().ok());
  EXPECT_TRUE(absl::IsUnavailable(run.Step()));
  EXPECT_FALSE(run.done());
  EXPECT_THAT(log_.calls, ElementsAre("commit"));
}

TEST_F(CheckpointRunTest, DeadLettersThatAreCommittedAreNotHandedBackByAFailureAfterwards) {
  store_.write_status = absl::ResourceExhaustedError("disk full");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  ASSERT_TRUE(run.Step().ok());
  ASSERT_FALSE(run.Step().ok());
  EXPECT_THAT(log_.dead_letters, ElementsAre("letter"));
  const Checkpoint failed = run.TakeCheckpoint();
  EXPECT_THAT(failed.dead_letters, IsEmpty()) << "the next checkpoint would send them again";
  EXPECT_THAT(failed.blocks, ElementsAre(0)) << "but its blocks are to be saved again";
}

TEST_F(CheckpointRunTest, InATopicThatWasMadeAnewOneCheckpointIsNotTheWholeShard) {
  CheckpointRun first(SomeCheckpoint(), log_, store_);
  while (!first.done()) ASSERT_TRUE(first.Step().ok());
  const std::map<std::string, std::string> content = Content(store_);
  log_.parameters.clear();
  log_.calls.clear();
  CheckpointRun second(SomeCheckpoint(11), log_, store_);
  const Status status = second.Step();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(Content(store_), content);
  EXPECT_THAT(log_.calls, ElementsAre("commit")) << "gradients must reach back to the store";
  EXPECT_THAT(log_.parameters, IsEmpty()) << "it would pass for all of the shard";
}

TEST_F(CheckpointRunTest, AFailedTrimIsReportedAndLosesNothing) {
  log_.trim_status = absl::UnavailableError("no broker");
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  ASSERT_TRUE(run.Step().ok());
  ASSERT_TRUE(run.Step().ok());
  EXPECT_TRUE(absl::IsUnavailable(run.Step()));
  EXPECT_FALSE(run.done());
  EXPECT_EQ(Content(store_).size(), 3u);
}

TEST_F(CheckpointRunTest, ACheckpointIsNotTakenFromARunThatIsNotOver) {
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  EXPECT_DEATH((void)run.TakeCheckpoint(), "broken invariant");
  log_.commit_status = absl::DeadlineExceededError("no answer");
  ASSERT_FALSE(run.Step().ok());
  EXPECT_DEATH((void)run.TakeCheckpoint(), "broken invariant") << "the commit may have been made";
  log_.commit_status = absl::OkStatus();
  ASSERT_TRUE(run.Step().ok());
  EXPECT_DEATH((void)run.TakeCheckpoint(), "broken invariant");
}

TEST_F(CheckpointRunTest, ADiskThatDoesNotAnswerEndsTheRun) {
  CheckpointRun run(SomeCheckpoint(), log_, store_);
  store_.get_status = absl::UnavailableError("input/output error");
  ASSERT_EQ(run.Step(), store_.get_status);
  EXPECT_THAT(log_.calls, IsEmpty());
  EXPECT_THAT(run.TakeCheckpoint().dead_letters, ElementsAre("letter"));
}

TEST(Incarnation, OnlyACopyThatHasReadNothingGetsANumber) {
  MemoryByteMap store;
  ASSERT_TRUE(ProposeIncarnation(store, 7).ok());
  ASSERT_TRUE(ProposeIncarnation(store, 8).ok());
  EXPECT_EQ(ReadIncarnation(store).value(), EncodeBigEndian64(7));
  ASSERT_TRUE(store.Write(BatchOf({}, 5)).ok());
  EXPECT_DEATH((void)ProposeIncarnation(store, 9), "broken invariant");
}

TEST(Incarnation, ANumberThatTheDiskRefusesIsAnError) {
  FailingByteMap store;
  store.write_status = absl::UnavailableError("full");
  EXPECT_EQ(ProposeIncarnation(store, 7), store.write_status);
}

}  // namespace
}  // namespace millrace
