#include "tasks/worker_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tests/tasks/fold_and_answer.h"
#include "tests/tasks/worker_task_fixture.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- the committed position ----

TEST(InputPositionTest, ComesBackFromACommitAsItWas) {
  for (const InputPosition& position : {InputPosition{0, 0, 0}, InputPosition{17, 12, 3},
                                        InputPosition{1, UINT64_MAX, UINT64_MAX}}) {
    EXPECT_EQ(InputPosition::FromCommit(position.offset, position.Metadata()), position);
  }
}

TEST(InputPositionTest, MetadataOfSomebodyElseIsNoPosition) {
  for (const char* metadata :
       {"", "row", "row=", "row=1", "row=x clock=1", "row=1x clock=1", "row=-1 clock=1",
        "row= 1 clock=1", "Row=1 clock=1", "1", "row=99999999999999999999 clock=1",
        "row=1 clock=", "row=1 clock=1 ", "row=1  clock=1", "clock=1"}) {
    EXPECT_EQ(InputPosition::FromCommit(5, metadata), std::nullopt) << metadata;
  }
}

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
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{4, 4, 1}));
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{11, 8, 2}));
}

TEST_F(WorkerTaskTest, ACommitMayBeWithinARecordAndReadingGoesOnThere) {
  log_.AddRecord(0, 10);
  log_.AddStranger();  // counted with row 10
  log_.AddRecord(10, 6);
  log_.AddRecord(13, 7);  // rows 16 to 19 are new
  Start(OnePass());
  Read();
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{0, 4, 1}));
  Receive(Answer(2, 10));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{1, 10, 2})) << "the stranger is still needed";
  Receive(Answer(3, 14));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{2, 14, 3})) << "the stranger was counted";
  Receive(Answer(4, 18));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{3, 18, 4}));
  Start(OnePass(2), InputPosition{3, 18, 4}, 3);
  EXPECT_EQ(reading_, 3);
  Read();
  out_.clear();
  Receive(Answer(4, 18));
  EXPECT_EQ(SentUpdate().update().rows_end(), 20u);
}

TEST_F(WorkerTaskTest, TheRecordWithTheRowBeforeTheFirstNeededOneIsNotTrimmed) {
  log_.AddRecord(0, 4);
  log_.AddRecord(4, 8);
  log_.AddRecord(12, 4);
  Start(OnePass());
  Read();
  for (const auto& [clock, rows_end, kept] :
       std::vector<std::tuple<Clock, RowNumber, Offset>>{{1, 4, 0}, {2, 8, 1}, {3, 12, 1}}) {
    Receive(Answer(clock, rows_end));
    ASSERT_TRUE(task_->TrimPosition().has_value());
    EXPECT_LE(*task_->TrimPosition(), kept) << rows_end;
  }
  EXPECT_EQ(task_->TrimPosition(), 1);
}

// Whoever may write to `weights` must not be able to delete rows that nobody has read.
TEST_F(WorkerTaskTest, AForgedClockCommitsAndDeletesNothing) {
  log_.AddRows(40);
  Start(OnePass());
  Read(12);
  Receive(Answer(1, 4));
  const std::optional<InputPosition> before = task_->CommitPosition();
  EXPECT_EQ(before, (InputPosition{4, 4, 1}));
  for (const Clock forged : {Clock(9), Clock(1'000'000), Clock(uint64_t{1} << 44)}) {
    Receive(Answer(forged, 36));
    EXPECT_LE(task_->CommitPosition().value_or(*before).row, before->row) << forged;
    EXPECT_LE(task_->TrimPosition().value_or(3), 3) << forged;
  }
  // Only the shard's reply to a repeated message corrects it.
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->clock(), uint64_t{1} << 44);
  out_.clear();
  task_->Repeat(out_);
  Weights reply = Answer(1, 4);
  reply.set_answers_to(Sent().back().number());
  Receive(reply);
  EXPECT_EQ(task_->clock(), 1u);
}

TEST_F(WorkerTaskTest, RowsReadAgainBearOutAClockThatIsFarAhead) {
  log_.AddRows(40);
  Start(OnePass(), InputPosition{4, 4});
  Receive(Answer(8, 32));
  EXPECT_EQ(task_->CommitPosition(), std::nullopt);
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{32, 32, 8}));
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

TEST_F(WorkerTaskTest, ATaskThatBeginsAfterItsFirstRowsHasNothingNewToCommit) {
  log_.AddRows(12);
  Start(OnePass(), InputPosition{8, 8});
  EXPECT_EQ(reading_, 8);
  Read();
  EXPECT_EQ(task_->CommitPosition(), std::nullopt) << "before it is known where the worker stands";
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{8, 8, 2}));
}

TEST_F(WorkerTaskTest, AfterAllThatWasReadTheCommitIsWhereReadingGoesOn) {
  log_.AddRows(4);
  Start(OnePass());
  Read();
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{4, 4, 1}));
  // A worker of long ago, whose commit was lost: it reads over what has been used.
  Receive(Answer(7, 28));
  EXPECT_EQ(task_->CommitPosition(), std::nullopt) << "until the rows bear the clock out";
  log_.AddRows(30);
  Read();
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{28, 28, 7}));
}

TEST_F(WorkerTaskTest, TheEndStaysToBeReadAgain) {
  log_.AddRows(4);
  log_.AddEnd();
  Start(OnePass());
  Read();
  Receive(Answer(1, 4));
  EXPECT_EQ(Sent().back().kind_case(), Gradient::kLeave);
  const std::optional<InputPosition> position = task_->CommitPosition();
  EXPECT_EQ(position, (InputPosition{4, 4, 1}));
  EXPECT_TRUE(task_->ended());
  Start(OnePass(), position);
  Read();
  EXPECT_TRUE(task_->ended()) << "a task that started after the end would wait for ever";
}

TEST_F(WorkerTaskTest, TheNewestRecordIsNeverTrimmedSinceTheProducerGoesOnAfterIt) {
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

TEST_F(WorkerTaskTest, AfterADeletionTheFirstRecordSaysWhichRowItIs) {
  log_.AddRows(6);
  log_.AddRepeats(2);
  log_.AddRows(10);  // row 6 stands at offset 8
  Start(OnePass(), InputPosition{2, 2}, 10);
  EXPECT_EQ(reading_, 10);
  EXPECT_EQ(task_->CommitPosition(), std::nullopt);
  Read();
  Receive(Answer(2, 8));
  EXPECT_EQ(task_->CommitPosition(), (InputPosition{10, 8, 2}));
  EXPECT_EQ(SentUpdate().update().rows_end(), 12u);
}

TEST_F(WorkerTaskTest, RowsThatAreMissingAreAnErrorAndNotAGuess) {
  log_.AddRows(3);
  Start(OnePass());
  Read();
  const Status status = task_->ProcessInput({3, 0, EncodeInputKey({4, 1}), EncodeRow(TaskRow(4))});
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
  EXPECT_EQ(said[0].restore().committed_row(), 8u);
  EXPECT_EQ(said[1].kind_case(), Gradient::kAsk);
  Receive(Answer(2, 8));
  EXPECT_EQ(SentUpdate().clock(), 2u);
}

TEST_F(WorkerTaskTest, RowsThatAreMissingForEveryRequestAreAnErrorWithARemedy) {
  log_.AddRows(12);
  Start(OnePass(), std::nullopt, 8);
  Read();
  Status status;
  for (int request = 0; request < 20 && status.ok(); ++request) {
    task_->Repeat(out_);
    const std::string frame = MakeFrames(Answer(1, 4).SerializeAsString(), 1).front();
    task_->ProcessWeights(0, EncodeBigEndian32(0) + EncodeBigEndian32(0), frame, out_);
    status = task_->Advance(out_);
  }
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("input-data, partition "), HasSubstr("start a new job")));
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
          ASSERT_TRUE(FoldAndAnswer(shard, {gradients++, record.key, record.value}, answers).ok());
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
