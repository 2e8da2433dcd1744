// The buffer schedule of a worker task: what it keeps on its disk, and what it rebuilds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tasks/worker_task.h"
#include "tests/stores/failing_byte_map.h"
#include "tests/tasks/worker_task_fixture.h"

namespace millrace {
namespace {

// ---- the buffer ----

TEST_F(WorkerTaskTest, TheBufferScheduleCommitsWhatTheBufferFollowsFrom) {
  log_.AddRows(1000);
  Start(Buffered());
  Read(100);
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 0}));
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 0})) << "row 0 is not counted yet";
  Receive(Answer(1, 1000));
  const std::optional<InputPosition> position = task_->CommitPosition();
  ASSERT_TRUE(position.has_value());
  EXPECT_EQ(position->offset, uint64_t{position->row});
  EXPECT_LE(position->row, 1000u - 16 - ArrivalRate::kWindow);
  EXPECT_GE(position->row, 1000u - 16 - ArrivalRate::kWindow - 1);
}

// The three ways to a buffer: the task that always lived, one that restored its disk, and one on
// another machine that read the log from the commit. What they send is the same.
TEST_F(WorkerTaskTest, ABufferFromTheDiskAndOneRebuiltFromTheLogAreTheOneThatLived) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 40; ++trial) {
    log_ = InputLog();
    store_ = std::make_unique<MemoryByteMap>();
    log_.AddAnything(random, RowNumber(20 + random() % 1500));
    WorkerOptions options = Buffered();
    if (trial % 2 == 0) options.training.mutable_buffer()->set_minibatch_rows(3);
    Start(options);
    std::optional<InputPosition> committed;
    while (reading_ < log_.end()) {
      Read(static_cast<Offset>(1 + random() % 200));
      if (random() % 2 == 0) Save();
      if (random() % 2 == 0 && task_->CommitPosition()) committed = task_->CommitPosition();
    }
    const RowNumber counted = log_.rows - random() % std::min<RowNumber>(log_.rows, 20);
    log_.AddRow();
    out_.clear();
    Read();
    Receive(Answer(3, counted));
    const Gradient lived = SentUpdate();
    const size_t size = task_->buffered_rows();

    Start(options, committed);  // with the disk
    Read();
    out_.clear();
    Receive(Answer(3, counted));
    Gradient restored = SentUpdate();
    ASSERT_EQ(task_->buffered_rows(), size) << "trial " << trial;
    ASSERT_EQ(restored.SerializeAsString(), lived.SerializeAsString()) << "trial " << trial;

    store_ = std::make_unique<MemoryByteMap>();
    Start(options, committed);
    Read();
    out_.clear();
    Receive(Answer(3, counted));
    ASSERT_EQ(SentUpdate().SerializeAsString(), lived.SerializeAsString()) << "trial " << trial;
  }
}

TEST_F(WorkerTaskTest, ABufferHoldsItsReaderBackUntilThereIsRoomForARecordBesideWhatIsNotCounted) {
  log_.AddRecord(RowNumber(0), 3);
  WorkerOptions options = Buffered();
  options.training.mutable_buffer()->set_max_rows(5);
  options.training.mutable_buffer()->set_min_rows(5);
  Start(options);
  EXPECT_TRUE(task_->WantsRows());
  Read();
  EXPECT_FALSE(task_->WantsRows()) << "of three rows, as this one";
  Receive(Answer(1, 1));
  EXPECT_TRUE(task_->WantsRows());
  options.training.mutable_buffer()->set_skip_rows(true);
  Start(options);
  Read();
  EXPECT_TRUE(task_->WantsRows());
}

WorkerOptions OnlineOnFourRows() {
  WorkerOptions options = Buffered();
  options.training.mutable_update()->set_kind(Training::Update::ONLINE);
  options.training.set_batch_rows(3);
  options.training.mutable_buffer()->set_max_rows(4);
  return options;
}

// Whoever may write to `weights` must not make a buffer lose rows that nobody has learnt from.
TEST_F(WorkerTaskTest, AForgedCountOfRowsReplacesNoneInABuffer) {
  log_.AddRecord(RowNumber(0), 4);
  log_.AddRows(40);
  Start(OnlineOnFourRows());
  Read(1);
  Receive(Answer(1, 2));
  Sent();
  Receive(Answer(5, 1'000'000));
  EXPECT_FALSE(task_->WantsRows());
  Advance();
  const std::vector<Gradient> asked = Sent();
  ASSERT_THAT(asked, ::testing::SizeIs(1)) << "once, and without a timer";
  EXPECT_TRUE(asked[0].has_ask());
  Weights reply = Answer(1, 2);
  reply.set_answers_to(asked[0].number());
  Receive(reply);
  EXPECT_EQ(SentUpdate().update().row_count(), 2u) << "rows 2 and 3 are still there";
}

TEST_F(WorkerTaskTest, ARestartedTaskReadsOnWhereTheReplyToItsQuestionSaysThatRowsAreCounted) {
  log_.AddRows(60);
  for (const bool is_told_before : {false, true}) {
    Start(OnlineOnFourRows());
    const uint64_t asked = Sent().back().number();
    Read(4);
    EXPECT_FALSE(task_->WantsRows()) << "it does not know yet";
    if (is_told_before) {  // by a server that has not read the question, and twice
      Receive(Answer(20, 57));
      EXPECT_FALSE(task_->WantsRows());
      Sent();
      Receive(Answer(20, 57));
      EXPECT_FALSE(task_->WantsRows());
    }
    Weights reply = Answer(20, 57);
    reply.set_answers_to(is_told_before ? Sent().back().number() : asked);
    Receive(reply);
    for (; reading_ < log_.end(); Read(1)) ASSERT_TRUE(task_->WantsRows());
    EXPECT_EQ(SentUpdate().update().row_count(), 3u);
  }
}

TEST_F(WorkerTaskTest, AWorkerThatIsToldThatItHasLeftKeepsNoMoreRowsThanItsBuffer) {
  log_.AddRows(60);
  Start(OnlineOnFourRows());
  Weights left = Answer(3, 2);
  left.set_left(true);
  left.clear_slice();
  left.clear_moments();
  Receive(left);
  while (task_->WantsRows() && reading_ < log_.end()) Read(1);
  EXPECT_EQ(reading_, 6) << "two that are counted, and four that are not";
}

TEST_F(WorkerTaskTest, ABufferIsNotSavedWhileRowsThatItHasLostAreToBeLearntFrom) {
  log_.AddRecord(RowNumber(0), 9);
  WorkerOptions options = Buffered();
  options.training.mutable_update()->set_kind(Training::Update::ONLINE);
  options.training.mutable_buffer()->set_max_rows(4);
  Start(options);
  Read();
  Save();
  Start(options);
  EXPECT_EQ(reading_, 0) << "there is no copy";
  Read();
  Receive(Answer(3, 6));
  Save();
  Start(options);
  EXPECT_EQ(reading_, 1) << "four rows are left, which the buffer has";
}

TEST_F(WorkerTaskTest, OfABufferAnOnlineLearnerTakesABatchOfRowsAtATime) {
  log_.AddRows(5);
  WorkerOptions options = Buffered();
  options.training.mutable_update()->set_kind(Training::Update::ONLINE);
  options.training.set_batch_rows(3);
  Start(options);
  Read();
  out_.clear();
  Receive(Answer(1, 1));
  const Gradient update = SentUpdate();
  EXPECT_EQ(update.update().rows_end(), 4u);
  EXPECT_EQ(update.update().row_count(), 3u);
}

TEST_F(WorkerTaskTest, TheDiskSavesReadingWhatItHas) {
  log_.AddRows(1000);
  Start(Buffered());
  Read(900);
  Save();
  const std::optional<InputPosition> committed = task_->CommitPosition();
  ASSERT_LT(committed->offset, 900);
  Start(Buffered(), committed);
  EXPECT_EQ(reading_, 900);
  EXPECT_EQ(task_->CommitPosition(), std::nullopt) << "the last commit still vouches for the rows";
  store_.reset();
  Start(Buffered(), committed);
  EXPECT_EQ(reading_, committed->offset);
}

TEST_F(WorkerTaskTest, ADiskThatIsOlderThanTheCommitIsNotUsedAndLeavesNoTrace) {
  log_.AddRows(3000);
  Start(Buffered());
  Read(12);
  Save();  // and then the partition went to another process for a while
  const InputPosition committed = {2400, 2400};
  Start(Buffered(), committed);
  EXPECT_EQ(reading_, 2400);
  Read(2);
  EXPECT_EQ(task_->buffered_rows(), 2u);
  Save();
  // What is on the disk now is this task's buffer, not a mixture of two.
  Start(Buffered(), committed);
  EXPECT_EQ(reading_, 2402);
  EXPECT_EQ(task_->buffered_rows(), 2u);
}

// The rows between the disk's position and the beginning of the log are on no disk and in no topic.
TEST_F(WorkerTaskTest, ADiskThatEndsBeforeTheFirstRowOfTheLogIsNotUsedAndLeavesNoTrace) {
  log_.AddRows(1000);
  Start(Buffered());
  Read(100);
  Save();
  Start(Buffered(), std::nullopt, 500);  // the first 500 rows have been deleted
  EXPECT_EQ(reading_, 500);
  EXPECT_EQ(task_->buffered_rows(), 0u);
  Read(2);
  Save();
  Start(Buffered(), std::nullopt, 500);
  EXPECT_EQ(reading_, 502);
  EXPECT_EQ(task_->buffered_rows(), 2u);
}

TEST_F(WorkerTaskTest, ADiskThatEndsWhereTheLogBeginsIsUsed) {
  log_.AddRows(1000);
  Start(Buffered());
  Read(500);
  Save();
  const size_t rows = task_->buffered_rows();
  Start(Buffered(), std::nullopt, 500);
  EXPECT_EQ(reading_, 500);
  EXPECT_EQ(task_->buffered_rows(), rows);
}

// A damaged disk is read from the log again (below); of one that fails for another reason it is not
// known what it holds, so nothing on it may be deleted.
TEST_F(WorkerTaskTest, ADiskThatDoesNotAnswerIsAnErrorAndKeepsWhatItHas) {
  FailingByteMap store;
  log_.AddRows(20);
  WorkerTask writer(Buffered(), kTaskShape, model_, 1);
  ASSERT_TRUE(writer.StartReading(std::nullopt, 0, nullptr).ok());
  for (Offset offset = 0; offset < log_.end(); ++offset) {
    const InputLog::Record& record = log_.records[static_cast<size_t>(offset)];
    ASSERT_TRUE(writer.ProcessInput({offset, record.timestamp_ms, record.key, record.value}).ok());
  }
  WriteBatch batch;
  writer.SaveTo(batch);
  ASSERT_TRUE(store.Write(batch).ok());
  store.scan_status = absl::UnavailableError("it does not answer");
  WorkerTask reader(Buffered(), kTaskShape, model_, 2);
  const Status status = reader.StartReading(std::nullopt, 0, &store).status();
  EXPECT_EQ(status, absl::UnavailableError("it does not answer"));
  store.scan_status = absl::OkStatus();
  WorkerTask next(Buffered(), kTaskShape, model_, 3);
  const StatusOr<Offset> offset = next.StartReading(std::nullopt, 0, &store);
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_EQ(*offset, log_.end());
}

TEST_F(WorkerTaskTest, ADiskOfAnotherEpochIsNotUsedAndLeavesNoTrace) {
  log_.AddRows(20);
  Start(Buffered());
  Read();
  Save();
  WorkerOptions next_epoch = Buffered();
  next_epoch.epoch = 2;
  Start(next_epoch);
  EXPECT_EQ(reading_, 0);
  EXPECT_EQ(task_->buffered_rows(), 0u);
  Read(2);
  Save();
  Start(next_epoch);
  EXPECT_EQ(reading_, 2);
  EXPECT_EQ(task_->buffered_rows(), 2u);
}

// Its disk had refused the rows, and then took the position.
TEST_F(WorkerTaskTest, APositionWithoutTheRowsBeforeItIsADamagedCopy) {
  log_.AddRows(20);
  Start(Buffered());
  Read();
  WriteBatch refused;
  task_->SaveTo(refused);
  Save();
  Start(Buffered());
  EXPECT_EQ(reading_, 0) << "all of the log is read again";
}

TEST_F(WorkerTaskTest, ADamagedDiskIsNoReasonToStopSinceTheLogHasItAll) {
  for (const std::string& key :
       {std::string("w") + EncodeBigEndian32(0) + "b" + EncodeBigEndian32(1),
        std::string("w") + EncodeBigEndian32(0) + "p"}) {
    log_ = InputLog();
    store_ = std::make_unique<MemoryByteMap>();
    log_.AddRows(20);
    Start(Buffered());
    Read();
    Save();
    WriteBatch damage;
    damage.Put(key, "\xff\xff damaged");
    ASSERT_TRUE(store_->Write(damage).ok());
    Start(Buffered());
    EXPECT_EQ(reading_, 0);
    Read(3);
    EXPECT_EQ(task_->buffered_rows(), 3u);
    Save();
    Start(Buffered());
    EXPECT_EQ(reading_, 3);
    EXPECT_EQ(task_->buffered_rows(), 3u);
  }
}

TEST_F(WorkerTaskTest, TwoWorkersShareADisk) {
  log_.AddRows(20);
  WorkerOptions second = Buffered();
  second.worker = 1;
  second.workers = 2;
  Start(Buffered());
  Read();
  Save();
  Start(second);
  EXPECT_EQ(reading_, 0);
  Read(5);
  Save();
  Start(Buffered());
  EXPECT_EQ(reading_, 20);
  Start(second);
  EXPECT_EQ(reading_, 5);
}

TEST_F(WorkerTaskTest, DeadLettersThatWereNotCountedSurviveOnTheDisk) {
  log_.AddRows(2);
  log_.AddDamagedRecord(1);
  log_.AddRows(2);
  Start(Buffered());
  Read();
  Save();
  log_.records.resize(3);  // what stood there has been deleted: only the disk has it
  Start(Buffered());
  EXPECT_EQ(reading_, 5);
  out_.clear();
  Receive(Answer(0, 0));
  const Gradient update = SentUpdate();
  ASSERT_EQ(update.update().dead_letters_size(), 1);
  EXPECT_EQ(update.update().dead_letters(0).offset(), 2);
}

// It stands between two rows, so it is read again with the second of them.
TEST_F(WorkerTaskTest, ADamagedRecordThatIsReadAgainAfterAStartIsReportedOnce) {
  log_.AddRows(2);
  log_.AddStranger();
  Start(Buffered());
  Read();
  Save();
  Start(Buffered());
  EXPECT_EQ(reading_, 2);
  log_.AddRow();
  Read();
  out_.clear();
  Receive(Answer(0, 0));
  EXPECT_EQ(SentUpdate().update().dead_letters_size(), 1);
}

// It is reported with the update that counts its row; until then its record must stay in the log.
TEST_F(WorkerTaskTest, ADamagedRecordIsNeededUntilItsRowIsCountedHoweverManyRowsFollow) {
  log_.AddRows(2);
  log_.AddDamagedRecord(1);
  log_.AddRows(2000);
  Start(Buffered());
  Read();
  EXPECT_LE(task_->CommitPosition()->row, 2u);
  out_.clear();
  Receive(Answer(0, 0));
  EXPECT_EQ(SentUpdate().update().dead_letters_size(), 1);
  EXPECT_LE(task_->CommitPosition()->row, 2u) << "the update may be lost";
  Receive(Answer(1, log_.rows));
  ASSERT_TRUE(task_->CommitPosition().has_value());
  EXPECT_GT(task_->CommitPosition()->row, 1000u);
}

TEST_F(WorkerTaskTest, OnePassKeepsNothingOnTheDisk) {
  log_.AddRows(8);
  Start(OnePass());
  Read();
  WriteBatch batch;
  task_->SaveTo(batch);
  EXPECT_TRUE(batch.empty());
}

}  // namespace
}  // namespace millrace
