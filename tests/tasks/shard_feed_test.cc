#include "tasks/shard_feed.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "stores/frozen_rows.h"
#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "tests/stores/failing_byte_map.h"
#include "tests/tasks/fold_and_answer.h"

namespace millrace {
namespace {

constexpr KeyRange kFedRange = {0, 6};

// A shard of one worker.
class ShardFeedTest : public testing::Test {
 protected:
  ShardFeedTest() {
    options_.workers = 1;
    task_.emplace(options_, store_);
    feed_.emplace(*task_);
  }

  void StartReplay(Offset end) { ASSERT_TRUE(task_->StartReplay(0, end).ok()); }
  void Take(const LogRecord& record) {
    const Status taken = feed_->Take({next_++, record.key, record.value, 0}, out_);
    ASSERT_TRUE(taken.ok()) << taken;
  }
  static Gradient NextUpdate(Clock clock) {
    return Update(0, clock, std::vector<float>(kFedRange.size(), 1), kFedRange);
  }
  void TakeUpdate(Clock clock) { Take(RecordOf(NextUpdate(clock))); }
  // The next update but one reaches the cut.
  void RequestSnapshot(uint64_t number = 1) {
    Gradient request = Message(Gradient::kRequestSnapshot, kNoWorker, 0);
    request.mutable_request_snapshot()->set_number(number);
    Take({EncodeBigEndian32(kNoWorker), RecordOf(request).value});
  }
  void GoToACut() {
    RequestSnapshot();
    EXPECT_FALSE(feed_->at_cut());
    TakeUpdate(0);
    EXPECT_FALSE(feed_->at_cut());
    TakeUpdate(1);
    ASSERT_TRUE(feed_->at_cut());
  }
  bool Announces() {
    out_.clear();
    const StatusOr<bool> first = feed_->Announce(out_);
    EXPECT_TRUE(first.ok()) << first.status();
    is_first_ = first.value_or(false);
    return !out_.empty();
  }

  ServerOptions options_ = SmallServer();
  MemoryByteMap store_;
  std::optional<ShardTask> task_;
  std::optional<ShardFeed> feed_;
  Offset next_ = 0;
  bool is_first_ = false;
  std::vector<OutgoingRecord> out_;
};

TEST_F(ShardFeedTest, RecordsThatComeAtACutAreReadAgainAfterIt) {
  StartReplay(0);
  GoToACut();
  const Offset cut = next_;
  TakeUpdate(2);
  EXPECT_EQ(task_->position(), cut);
  const StatusOr<std::optional<Offset>> read_from = feed_->LeaveCut();
  ASSERT_TRUE(read_from.ok());
  EXPECT_EQ(*read_from, std::optional<Offset>(cut));

  next_ = cut;
  for (const Clock clock : std::vector<Clock>{2, 3}) TakeUpdate(clock);
  RequestSnapshot(2);
  for (const Clock clock : std::vector<Clock>{4, 5}) TakeUpdate(clock);
  ASSERT_TRUE(feed_->at_cut());
  const StatusOr<std::optional<Offset>> second = feed_->LeaveCut();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, std::nullopt) << "nothing came at this one";
}

// Without the cut it would be of a state that the snapshot does not have.
TEST_F(ShardFeedTest, WhatIsDueAtACutIsAnsweredAfterIt) {
  StartReplay(0);
  GoToACut();
  out_.clear();
  ASSERT_TRUE(feed_->AnswerDue(out_).ok());
  EXPECT_TRUE(out_.empty());
  ASSERT_TRUE(feed_->LeaveCut().ok());
  ASSERT_TRUE(feed_->AnswerDue(out_).ok());
  EXPECT_EQ(out_.size(), 1u);
  out_.clear();
  ASSERT_TRUE(feed_->AnswerDue(out_).ok());
  EXPECT_TRUE(out_.empty()) << "an answer is made once";
}

TEST_F(ShardFeedTest, NothingIsReadAgainAfterACutAtWhichNothingCame) {
  StartReplay(0);
  GoToACut();
  const StatusOr<std::optional<Offset>> read_from = feed_->LeaveCut();
  ASSERT_TRUE(read_from.ok());
  EXPECT_EQ(*read_from, std::nullopt);
  TakeUpdate(2);
  EXPECT_EQ(task_->position(), next_);
}

TEST_F(ShardFeedTest, ItsLastRecordIsReadAgainWhenTheConnectionWasLost) {
  StartReplay(0);
  EXPECT_EQ(feed_->ConnectionLost(), std::optional<Offset>(0));
  TakeUpdate(0);
  TakeUpdate(1);
  EXPECT_EQ(feed_->ConnectionLost(), std::optional<Offset>(1));
}

TEST_F(ShardFeedTest, ItsLastRecordIsReadAgainAfterACutAtWhichTheConnectionWasLost) {
  StartReplay(0);
  GoToACut();
  EXPECT_EQ(feed_->ConnectionLost(), std::nullopt);
  const StatusOr<std::optional<Offset>> read_from = feed_->LeaveCut();
  ASSERT_TRUE(read_from.ok());
  EXPECT_EQ(*read_from, std::optional<Offset>(next_ - 1));
}

TEST_F(ShardFeedTest, ADeadLetterOfTheUpdateThatReachesACutIsWrittenOnce) {
  for (const int replayed : {0, 3}) {
    SCOPED_TRACE(replayed == 0 ? "live" : "in a replay");
    task_.emplace(options_, store_);
    feed_.emplace(*task_);
    next_ = 0;
    StartReplay(Offset(replayed));
    RequestSnapshot();
    TakeUpdate(0);
    Take(RecordOf(WithDeadLetter(NextUpdate(1), "no row")));
    if (replayed == 0) {
      ASSERT_TRUE(feed_->at_cut());
      ASSERT_TRUE(feed_->LeaveCut().ok());
    }
    const StatusOr<std::optional<Checkpoint>> checkpoint = task_->BeginCheckpoint();
    ASSERT_TRUE(checkpoint.ok() && checkpoint->has_value());
    EXPECT_EQ((*checkpoint)->dead_letters.size(), 1u);
  }
}

// An eventual shard of two workers, whose store of embedding rows can refuse to be read.
class FailingRowsTest : public testing::Test {
 protected:
  FailingRowsTest() {
    ServerOptions options = SmallServer(kEventual);
    options.workers = 2;
    options.embeddings.emplace();
    options.embeddings->initial_limit.assign(1, 0.5f);
    // A store without rows is not asked for any.
    WriteBatch batch;
    batch.Put(EmbeddingRowKey(0, UINT64_MAX), "a row that nobody names");
    EXPECT_TRUE(store_.Write(batch).ok());
    task_.emplace(options, store_);
  }
  void SetUp() override { ASSERT_TRUE(task_->StartReplay(0, 0).ok()); }

  Status Take(const LogRecord& record) {
    return FoldAndAnswer(*task_, {next_++, record.key, record.value, 0}, out_);
  }
  Status TakeFromNobody(Gradient message) {
    message.set_epoch(1);
    message.set_worker(kNoWorker);
    return Take({EncodeBigEndian32(kNoWorker), RecordOf(message).value});
  }
  // With a new embedding row, so that the store is asked for it.
  Status TakeUpdate(WorkerId worker, Clock clock) {
    Gradient update = Update(worker, clock, std::vector<float>(kFedRange.size(), 1), kFedRange);
    update.mutable_update()->mutable_embeddings()->add_id(next_id_++);
    update.mutable_update()->mutable_embeddings()->add_value(1);
    return Take(RecordOf(update));
  }

  FailingByteMap store_;
  std::optional<ShardTask> task_;
  Offset next_ = 0;
  EmbeddingId next_id_ = 1;
  std::vector<OutgoingRecord> out_;
};

TEST_F(FailingRowsTest, AnUpdateWhoseRowsCannotBeReadEndsTheFold) {
  ASSERT_TRUE(TakeUpdate(0, 0).ok());
  store_.get_status = absl::DataLossError("unreadable");
  EXPECT_EQ(TakeUpdate(0, 1), store_.get_status);
}

TEST_F(FailingRowsTest, AnUpdateHeldAtACutThatIsCancelledEndsTheFoldIfItsRowsCannotBeRead) {
  Gradient request;
  request.mutable_request_snapshot()->set_number(1);
  ASSERT_TRUE(TakeFromNobody(request).ok());
  for (const Clock clock : std::vector<Clock>{0, 1, 2}) ASSERT_TRUE(TakeUpdate(0, clock).ok());
  ASSERT_EQ(task_->processor().clocks().clock(0), 2u) << "the third is held";
  store_.get_status = absl::DataLossError("unreadable");
  Gradient cancel;
  cancel.mutable_cancel_snapshot()->set_snapshot(1);
  EXPECT_EQ(TakeFromNobody(cancel), store_.get_status);
}

TEST(ShardFeedDeathTest, WhatIsLeftIsACutAndAFailedCheckNamesTheLastRecord) {
  MemoryByteMap store;
  ServerOptions options = SmallServer();
  options.workers = 1;
  ShardTask task(options, store);
  ASSERT_TRUE(task.StartReplay(0, 0).ok());
  std::vector<OutgoingRecord> out;
  for (const Clock clock : std::vector<Clock>{0, 1}) {
    const LogRecord record =
        RecordOf(Update(0, clock, std::vector<float>(kFedRange.size(), 1), kFedRange));
    const auto offset = static_cast<Offset>(uint64_t{clock});
    ASSERT_TRUE(FoldAndAnswer(task, {offset, record.key, record.value, 0}, out).ok());
  }
  EXPECT_DEATH((void)task.LeaveCut(), "gradients, partition 0, offset 1");
}

TEST_F(ShardFeedTest, AnswersEverybodyOnceItHasCaughtUp) {
  StartReplay(1);
  EXPECT_FALSE(Announces());
  TakeUpdate(0);
  EXPECT_TRUE(Announces());
  EXPECT_TRUE(is_first_);
  EXPECT_FALSE(Announces());
}

TEST_F(ShardFeedTest, AnswersEverybodyAgainWhenAnAnswerWasLost) {
  StartReplay(0);
  EXPECT_TRUE(Announces());
  feed_->AnswersLost();
  EXPECT_TRUE(Announces());
  EXPECT_FALSE(is_first_);
  EXPECT_FALSE(Announces());
}

TEST_F(ShardFeedTest, AnswersThatWereLostAtACutAreMadeAfterIt) {
  StartReplay(0);
  EXPECT_TRUE(Announces());
  GoToACut();
  feed_->AnswersLost();
  EXPECT_FALSE(Announces());
  ASSERT_TRUE(feed_->LeaveCut().ok());
  EXPECT_TRUE(Announces());
}

}  // namespace
}  // namespace millrace
