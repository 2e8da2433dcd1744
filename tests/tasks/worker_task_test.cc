#include "tasks/worker_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "models/softmax_regression.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "topics/figures_codec.h"
#include "topics/row_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const RowShape kShape = {.numeric = 1, .features = 4, .classes = 2};

Row RowOf(RowNumber number) {
  return {static_cast<uint32_t>(number * 7 / 3 % 2),
          {static_cast<double>(number * number % 11)},
          {1 + static_cast<uint32_t>(number % 3)},
          {0.5f + static_cast<float>(number % 2)}};
}

// ---- the committed position ----

TEST(InputPositionTest, ComesBackFromACommitAsItWas) {
  for (const InputPosition& position :
       {InputPosition{0, 0}, InputPosition{17, 12}, InputPosition{1, UINT64_MAX}}) {
    EXPECT_EQ(InputPosition::FromCommit(position.offset, position.Metadata()), position);
  }
}

TEST(InputPositionTest, MetadataOfSomebodyElseIsNoPosition) {
  for (const char* metadata : {"", "row", "row=", "row=x", "row=1x", "row=-1", "row= 1", "Row=1",
                               "1", "row=99999999999999999999"}) {
    EXPECT_EQ(InputPosition::FromCommit(5, metadata), std::nullopt) << metadata;
  }
}

// A partition of `input-data` as a producer with crashes, and strangers, leave it.
class InputLog {
 public:
  struct Record {
    std::string key;
    std::string value;
    int64_t timestamp_ms;
  };

  void Add(std::string key, std::string value) {
    now_ += 40;
    records.push_back({std::move(key), std::move(value), now_});
  }
  void AddRow() {
    Add(EncodeBigEndian64(rows), EncodeRow(RowOf(rows)));
    ++rows;
  }
  void AddRows(RowNumber count) {
    for (; count > 0; --count) AddRow();
  }
  void AddDamagedRow() {
    Add(EncodeBigEndian64(rows), "damaged " + std::to_string(rows));
    ++rows;
    ++damaged;
  }
  void AddStranger() {
    Add("a stranger", std::to_string(records.size()));
    ++damaged;
  }
  void AddRepeats(uint64_t count) {
    for (RowNumber row(rows - std::min<uint64_t>(count, rows)); row < rows; ++row) {
      Add(EncodeBigEndian64(row), EncodeRow(RowOf(row)));
    }
  }
  void AddEnd() { Add(EncodeBigEndian64(rows), EncodeEnd(rows)); }
  void AddAnything(std::mt19937& random, RowNumber until) {
    while (rows < until) {
      switch (random() % 12) {
        case 0:
          AddDamagedRow();
          break;
        case 1:
          AddStranger();
          break;
        case 2:
          AddRepeats(random() % 6);
          break;
        default:
          AddRow();
      }
    }
  }

  Offset end() const { return static_cast<Offset>(records.size()); }

  std::vector<Record> records;
  RowNumber rows = 0;
  uint64_t damaged = 0;

 private:
  int64_t now_ = 1'000'000;
};

WorkerOptions OnePass(uint32_t batch_rows = 4) {
  WorkerOptions options;
  options.training.set_batch_rows(batch_rows);
  options.numeric_columns = 1;
  return options;
}

WorkerOptions Buffered() {
  WorkerOptions options;
  options.training.set_schedule(Training::BUFFER);
  options.numeric_columns = 1;
  options.training.mutable_buffer()->set_min_rows(4);
  options.training.mutable_buffer()->set_max_rows(16);
  options.training.mutable_buffer()->set_coefficient(0.005);
  return options;
}

// A disk that does not answer the first time it is read.
class FailingOnceByteMap final : public OrderedByteMap {
 public:
  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    return map_.Get(key);
  }
  Status Write(const WriteBatch& batch) override { return map_.Write(batch); }
  Status Flush() override { return map_.Flush(); }
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    if (!std::exchange(has_failed_, true)) return absl::UnavailableError("it does not answer");
    return map_.Scan(begin, end, visit);
  }

 private:
  MemoryByteMap map_;
  mutable bool has_failed_ = false;
};

// A task, the input it reads, and a disk.
class WorkerTaskTest : public ::testing::Test {
 protected:
  void Start(const WorkerOptions& options, const std::optional<InputPosition>& committed = {},
             Offset log_begin = 0) {
    options_ = options;
    task_ = std::make_unique<WorkerTask>(options, kShape, model_, ++attempts_);
    const StatusOr<Offset> offset = task_->StartReading(committed, log_begin, store_.get());
    ASSERT_TRUE(offset.ok()) << offset.status();
    reading_ = *offset;
    task_->Start(out_);
  }

  void Read(Offset count = 1'000'000) {
    for (; count > 0 && reading_ < log_.end(); --count, ++reading_) {
      const InputLog::Record& record = log_.records[static_cast<size_t>(reading_)];
      const Status status =
          task_->ProcessInput({reading_, record.timestamp_ms, record.key, record.value});
      ASSERT_TRUE(status.ok()) << status;
    }
    Advance();
  }
  void Advance() {
    const Status status = task_->Advance(out_);
    ASSERT_TRUE(status.ok()) << status;
  }

  Weights Answer(Clock clock, RowNumber rows_end) const {
    Weights message;
    message.set_epoch(1);
    message.set_clock(clock);
    message.set_released(true);
    message.mutable_rows()->set_end(rows_end);
    std::vector<float> weights;
    for (size_t i = 0; i < 10; ++i) weights.push_back(0.1f * static_cast<float>(i * clock % 7));
    EncodeDenseSlice(weights, {0, 10}, *message.mutable_slice());
    ToProto(Moments(1), *message.mutable_moments());
    return message;
  }
  void Receive(const Weights& message, size_t max_frame_bytes = kMaxFrameBytes) {
    for (const std::string& frame :
         MakeFrames(message.SerializeAsString(), message.clock(), max_frame_bytes)) {
      task_->ProcessWeights(0, EncodeBigEndian32(0) + EncodeBigEndian32(0), frame, out_);
    }
    Advance();
  }

  // What the task has sent since the last call, put together from its frames.
  std::vector<Gradient> Sent() {
    std::vector<Gradient> messages;
    ChunkJoiner joiner;
    for (const OutgoingRecord& record : out_) {
      EXPECT_EQ(record.topic, Topic::kGradients);
      EXPECT_EQ(record.key, EncodeBigEndian32(options_.worker));
      if (const std::optional<std::string> body = *joiner.Add(0, *ParseFrame(record.value))) {
        EXPECT_TRUE(messages.emplace_back().ParseFromString(*body));
      }
    }
    out_.clear();
    return messages;
  }
  Gradient SentUpdate() {
    std::vector<Gradient> messages = Sent();
    std::erase_if(messages, [](const Gradient& m) { return !m.has_update(); });
    EXPECT_THAT(messages, SizeIs(1));
    if (messages.empty()) return {};
    messages[0].mutable_update()->clear_attempt();  // says only that it was computed again
    return messages[0];
  }

  void Save() {
    WriteBatch batch;
    task_->SaveTo(batch);
    ASSERT_TRUE(store_->Write(batch).ok());
  }

  SoftmaxRegression model_{4, 2};
  InputLog log_;
  std::unique_ptr<MemoryByteMap> store_ = std::make_unique<MemoryByteMap>();
  WorkerOptions options_;
  std::unique_ptr<WorkerTask> task_;
  std::vector<OutgoingRecord> out_;
  Offset reading_ = 0;
  uint64_t attempts_ = 0;
};

// ---- one pass ----

TEST_F(WorkerTaskTest, OnePassCommitsTheFirstRowOfThePresentClocksBatch) {
  log_.AddRows(6);
  log_.AddRepeats(3);  // so that offsets are not row numbers
  log_.AddRows(6);
  Start(OnePass());
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 0}));
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 0})) << "no answer has come yet";
  Receive(Answer(0, 0));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 0})) << "its update may be lost";
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{4, 4}));
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{11, 8}));
}

// Whoever may write to `weights` must not be able to delete rows that nobody has read.
TEST_F(WorkerTaskTest, AForgedClockCommitsAndDeletesNothing) {
  log_.AddRows(40);
  Start(OnePass());
  Read(12);
  Receive(Answer(1, 4));
  const std::optional<InputPosition> before = task_->CommitPosition();
  EXPECT_EQ(before, (InputPosition{4, 4}));
  for (const Clock forged : {Clock(9), Clock(1'000'000), Clock(uint64_t{1} << 44)}) {
    Receive(Answer(forged, 36));
    EXPECT_LE(task_->CommitPosition().value_or(*before).row, before->row) << forged;
    EXPECT_LE(task_->TrimPosition().value_or(3), 3) << forged;
  }
  // The server's own word counts as soon as it is said again.
  task_->Repeat(out_);
  out_.clear();
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->clock(), 1u);
}

TEST_F(WorkerTaskTest, RowsReadAgainBearOutAClockThatIsFarAhead) {
  log_.AddRows(40);
  Start(OnePass(), InputPosition{4, 4});
  Receive(Answer(8, 32));
  EXPECT_EQ(task_->CommitPosition(), std::nullopt);
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{32, 32}));
  EXPECT_EQ(SentUpdate().clock(), 8u);
}

TEST_F(WorkerTaskTest, AnAnswerThatCannotBeUsedIsCountedWithTheReason) {
  Start(OnePass());
  Weights other = Answer(0, 0);
  other.set_epoch(9);
  Receive(other);
  EXPECT_EQ(task_->unusable_answers(), 1u);
  EXPECT_THAT(task_->last_unusable_answer(), HasSubstr("weights, partition 0, offset 0"));
  EXPECT_THAT(task_->last_unusable_answer(), HasSubstr("epoch 9"));
  EXPECT_EQ(out_.back().topic, Topic::kDeadLetter);
}

TEST_F(WorkerTaskTest, AnUpdateThatIsTooLargeIsAnErrorAndNoEmptyMessage) {
  WorkerOptions options = OnePass();
  options.most_message_bytes = 60;
  log_.AddRows(4);
  Start(options);
  Read();
  const std::string body = Answer(0, 0).SerializeAsString();
  task_->ProcessWeights(0, EncodeBigEndian32(0), MakeFrames(body, 0).front(), out_);
  out_.clear();
  const Status status = task_->Advance(out_);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(WorkerTaskTest, ATaskThatBeginsBehindItsFirstRowsHasNothingNewToCommit) {
  log_.AddRows(12);
  Start(OnePass(), InputPosition{8, 8});
  EXPECT_EQ(reading_, 8);
  Read();
  EXPECT_EQ(task_->CommitPosition(), std::nullopt) << "before it is known where the worker stands";
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{8, 8}));
}

TEST_F(WorkerTaskTest, BehindAllThatWasReadTheCommitIsWhereReadingGoesOn) {
  log_.AddRows(4);
  Start(OnePass());
  Read();
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{4, 4}));
  // A worker of long ago, whose commit was lost: it reads over what has been used.
  Receive(Answer(7, 28));
  EXPECT_EQ(task_->CommitPosition(), std::nullopt) << "until the rows bear the clock out";
  log_.AddRows(30);
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{28, 28}));
}

TEST_F(WorkerTaskTest, TheEndStaysToBeReadAgain) {
  log_.AddRows(4);
  log_.AddEnd();
  Start(OnePass());
  Read();
  Receive(Answer(1, 4));
  EXPECT_EQ(Sent().back().kind_case(), Gradient::kLeave);
  const std::optional<InputPosition> position = task_->CommitPosition();
  EXPECT_EQ(position, (InputPosition{4, 4}));
  EXPECT_TRUE(task_->ended());
  Start(OnePass(), position);
  Read();
  EXPECT_TRUE(task_->ended()) << "a task that started behind the end would wait for ever";
}

TEST_F(WorkerTaskTest, TheNewestRecordIsNeverTrimmedSinceTheProducerGoesOnBehindIt) {
  log_.AddRows(8);
  Start(OnePass());
  EXPECT_EQ(task_->TrimPosition(), 0);
  Read();
  Receive(Answer(1, 4));
  ASSERT_TRUE(task_->TrimPosition().has_value());
  EXPECT_LE(*task_->TrimPosition(), 4);
  Receive(Answer(2, 8));
  EXPECT_LT(*task_->TrimPosition(), log_.end());
  EXPECT_GE(*task_->TrimPosition(), 4);
}

TEST_F(WorkerTaskTest, BehindADeletionTheFirstRecordSaysWhichRowItIs) {
  log_.AddRows(6);
  log_.AddRepeats(2);
  log_.AddRows(10);  // row 6 stands at offset 8
  Start(OnePass(), InputPosition{2, 2}, 10);
  EXPECT_EQ(reading_, 10);
  EXPECT_EQ(task_->CommitPosition(), std::nullopt);
  Read();
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{10, 8}));
  EXPECT_EQ(SentUpdate().update().rows_end(), 12u);
}

TEST_F(WorkerTaskTest, RowsThatAreMissingAreAnErrorAndNotAGuess) {
  log_.AddRows(3);
  Start(OnePass());
  Read();
  const Status status = task_->ProcessInput({3, 0, EncodeBigEndian64(4), EncodeRow(RowOf(4))});
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

// What was deleted is needed by nobody, so the answer that needs it is of long ago.
TEST_F(WorkerTaskTest, AnAnswerThatNeedsDeletedRowsIsForgottenAndAskedForAgain) {
  log_.AddRows(12);
  Start(OnePass(), std::nullopt, 8);
  Read();
  out_.clear();
  Receive(Answer(1, 4));
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_FALSE(task_->answered());
  EXPECT_FALSE(task_->owes_update());
  task_->Repeat(out_);
  const std::vector<Gradient> said = Sent();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_EQ(said[0].kind_case(), Gradient::kRestore) << "if the shard has lost its state";
  EXPECT_EQ(said[0].restore().least_clock(), 2u);
  EXPECT_EQ(said[1].kind_case(), Gradient::kAsk);
  Receive(Answer(2, 8));
  EXPECT_EQ(SentUpdate().clock(), 2u);
}

// A worker that is killed anywhere and starts again at its last commit, in front of a real shard:
// the model, the counts and the dead letters are those of the worker that lived.
TEST_F(WorkerTaskTest, KilledAnywhereAndStartedAtItsCommitTheModelIsTheSameToTheByte) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    log_ = InputLog();
    log_.AddAnything(random, RowNumber(60 + random() % 60));
    log_.AddEnd();
    std::vector<std::string> results;
    for (const bool kill : {false, true}) {
      ServerOptions server;
      server.range = {0, 10};
      server.penalised_end = 8;
      server.numeric_columns = 1;
      const MemoryByteMap no_disk;
      ShardTask shard(server, no_disk);
      ASSERT_TRUE(shard.StartReplay(0, 0).ok());
      Offset gradients = 0;
      std::optional<InputPosition> committed;
      WorkerOptions options = OnePass(1 + static_cast<uint32_t>(trial) % 7);
      if (trial % 3 == 0) options.max_frame_bytes = 50;
      Start(options);
      for (int step = 0; step < 5000 && !task_->left(); ++step) {
        if (random() % 3 == 0) Read(static_cast<Offset>(random() % 5));
        const std::optional<InputPosition> position = task_->CommitPosition();
        if (position && random() % 8 == 0) committed = position;
        if (random() % 10 == 0) task_->Repeat(out_);
        if (kill && random() % 12 == 0) {
          // Some of what it sent may be lost with it.
          out_.resize(random() % (out_.size() + 1));
          Start(options, committed);
        }
        std::vector<OutgoingRecord> answers;
        for (const OutgoingRecord& record : std::exchange(out_, {})) {
          ASSERT_TRUE(shard.ProcessGradient({gradients++, record.key, record.value}, answers).ok());
        }
        for (const OutgoingRecord& answer : answers) {
          if (random() % 10 == 0) continue;  // a delivery that failed
          task_->ProcessWeights(0, answer.key, answer.value, out_);
        }
        ASSERT_NO_FATAL_FAILURE(Advance());
      }
      ASSERT_TRUE(task_->left()) << "trial " << trial;
      const ServerProcessor& processor = shard.processor();
      ASSERT_EQ(processor.counters().undecodable_rows(), log_.damaged)
          << "each once, trial " << trial << (kill ? ", killed" : ", left alone");
      ShardState state;
      processor.SaveState(state);
      ASSERT_EQ(state.members(0).rows().end(), log_.rows);
      ASSERT_EQ(processor.progressive().rows, processor.rows_trained());
      // Repeats are counted, and a sender that died leaves chunks behind.
      state.clear_counters();
      state.clear_partial();
      state.mutable_members(0)->clear_buffer_rows();
      results.push_back(state.SerializeAsString() + processor.shard().EncodeBlock(0).value);
    }
    ASSERT_TRUE(results[0] == results[1]) << "trial " << trial;
  }
}

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
  FailingOnceByteMap store;
  log_.AddRows(20);
  WorkerTask writer(Buffered(), kShape, model_, 1);
  ASSERT_TRUE(writer.StartReading(std::nullopt, 0, nullptr).ok());
  for (Offset offset = 0; offset < log_.end(); ++offset) {
    const InputLog::Record& record = log_.records[static_cast<size_t>(offset)];
    ASSERT_TRUE(writer.ProcessInput({offset, record.timestamp_ms, record.key, record.value}).ok());
  }
  WriteBatch batch;
  writer.SaveTo(batch);
  ASSERT_TRUE(store.Write(batch).ok());
  WorkerTask reader(Buffered(), kShape, model_, 2);
  const Status status = reader.StartReading(std::nullopt, 0, &store).status();
  EXPECT_EQ(status, absl::UnavailableError("it does not answer"));
  WorkerTask next(Buffered(), kShape, model_, 3);
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
  log_.AddDamagedRow();
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
  log_.AddDamagedRow();
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

// ---- messages ----

TEST_F(WorkerTaskTest, AnAnswerInChunksIsTheSameAnswer) {
  log_.AddRows(8);
  Start(OnePass());
  Read();
  out_.clear();
  Receive(Answer(1, 4), 40);
  EXPECT_EQ(task_->clock(), 1u);
  EXPECT_THAT(Sent(), SizeIs(1));
}

TEST_F(WorkerTaskTest, ALargeUpdateIsSplitAndNoTwoMessagesShareAName) {
  WorkerOptions options = OnePass();
  options.max_frame_bytes = 40;
  log_.AddRows(8);
  Start(options);
  Read();
  out_.clear();
  Receive(Answer(0, 0));
  task_->Repeat(out_);
  std::vector<uint64_t> names;
  for (const OutgoingRecord& record : out_) {
    EXPECT_LE(record.value.size(), 40u);
    const Frame frame = *ParseFrame(record.value);
    ASSERT_TRUE(frame.is_chunk);
    if (frame.index == 0) names.push_back(frame.message_id);
  }
  ASSERT_THAT(names, SizeIs(2));
  EXPECT_NE(names[0], names[1]);
  const std::vector<Gradient> sent = Sent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].SerializeAsString(), sent[1].SerializeAsString());
  // Nor does a task that was started later.
  Start(options);
  Read();
  out_.clear();
  Receive(Answer(0, 0));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains(ParseFrame(out_[0].value)->message_id)));
}

TEST_F(WorkerTaskTest, WeightsThatCannotBeUsedGoToTheDeadLettersAndChangeNothing) {
  Start(OnePass());
  out_.clear();
  Weights other = Answer(5, 0);
  other.set_epoch(9);
  const std::string chunk = MakeFrames(Answer(5, 0).SerializeAsString(), 1, 40).front();
  const std::vector<std::pair<std::string, std::string>> records = {
      {EncodeBigEndian32(0), "damaged"},
      {EncodeBigEndian32(0), MakeFrames(other.SerializeAsString(), 0).front()},
      {EncodeBigEndian32(7), chunk},
      {"", chunk}};
  for (const auto& [key, value] : records) {
    task_->ProcessWeights(44, key, value, out_);
    ASSERT_THAT(out_, SizeIs(1));
    EXPECT_EQ(out_[0].topic, Topic::kDeadLetter);
    DeadLetter letter;
    ASSERT_TRUE(letter.ParseFromString(std::string(ParseFrame(out_[0].value)->body)));
    EXPECT_EQ(letter.topic(), "weights");
    EXPECT_EQ(letter.offset(), 44);
    EXPECT_EQ(letter.value(), value);
    EXPECT_FALSE(letter.reason().empty());
    out_.clear();
  }
  EXPECT_FALSE(task_->answered());
}

TEST_F(WorkerTaskTest, EvaluationsOfBatchesAreTakenOnce) {
  WorkerOptions options = OnePass();
  options.evaluate_batches = true;
  log_.AddRows(8);
  Start(options);
  Read();
  Receive(Answer(0, 0));
  Receive(Answer(1, 4));
  EXPECT_THAT(task_->TakeEvaluations(), SizeIs(2));
  EXPECT_THAT(task_->TakeEvaluations(), IsEmpty());
}

TEST_F(WorkerTaskTest, HoldsItsReaderBackWhileEnoughRowsWait) {
  log_.AddRows(2000);
  Start(OnePass());
  EXPECT_TRUE(task_->WantsRows());
  Read(1000);
  EXPECT_FALSE(task_->WantsRows());
  Receive(Answer(200, 800));
  EXPECT_TRUE(task_->WantsRows());
}

}  // namespace
}  // namespace millrace
