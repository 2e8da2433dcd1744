#include "tasks/shard_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tasks/first_checkpoint.h"
#include "tasks/state_codec.h"
#include "tests/processors/parameters_fixture.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/shard_task_fixture.h"
#include "topics/slice_codec.h"
#include "topics/weights_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- answers ----

SharedWeights SharedIn(const OutgoingRecord& record) {
  SharedWeights shared;
  EXPECT_TRUE(shared.ParseFromString(std::string(ParseFrame(record.value)->body)));
  return shared;
}

// The bytes of the answer to the worker, with the values in it.
std::string Whole(const SharedWeights& shared, WorkerId worker) {
  std::optional<Weights> answer = AnswerFrom(shared, worker);
  if (!answer) return "no answer";
  answer->clear_shared();
  answer->clear_mark();
  if (!HasWeights(*answer)) return answer->SerializeAsString();
  *answer->mutable_moments() = shared.moments();
  std::string bytes = answer->SerializeAsString();
  AppendDenseSlice(
      Weights::kSliceFieldNumber,
      std::span(shared.slice().dense().data(), static_cast<size_t>(shared.slice().dense_size())),
      {shared.slice().begin(), shared.slice().end()}, bytes);
  return bytes;
}

TEST_F(ShardTaskTest, AnswersAreOnlyGivenAfterTheEndOfTheReplay) {
  AppendAndFoldRound();
  Append(RecordOf(Message(Gradient::kAsk, 1, 0)));
  MemoryByteMap nothing;
  StatusOr<std::unique_ptr<ShardTask>> task = Load(nothing);
  ASSERT_TRUE((*task)->StartReplay(0, 3).ok());
  std::vector<OutgoingRecord> out;
  for (Offset offset = 0; offset < 3; ++offset) {
    EXPECT_FALSE((*task)->replayed());
    ASSERT_TRUE(Fold(**task, offset, out).ok());
  }
  EXPECT_THAT(out, IsEmpty());
  EXPECT_TRUE((*task)->replayed());
  EXPECT_EQ((*task)->replayed_records(), 3u);
  ASSERT_TRUE(Fold(**task, 3, out).ok());
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].partition, 1);
  EXPECT_EQ((*task)->replayed_records(), 3u);
}

TEST_F(ShardTaskTest, AnnouncesToEverybodyTheAnswerFromState) {
  AppendAndFoldRound();
  AppendAndFold(Message(Gradient::kLeave, 2, 1));
  out_.clear();
  ASSERT_TRUE(task_->Announce(out_).ok());
  ASSERT_THAT(out_, SizeIs(1));
  EXPECT_EQ(out_[0].topic, Topic::kWeights);
  EXPECT_EQ(out_[0].partition, SharedWeightsPartition(3));
  EXPECT_EQ(out_[0].key, EncodeBigEndian32(0) + EncodeBigEndian32(0));
  const SharedWeights shared = SharedIn(out_[0]);
  EXPECT_EQ(shared.version(), 4u) << "the position";
  EXPECT_THAT(shared.answers(), SizeIs(3));
  for (WorkerId worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(Whole(shared, worker), task_->processor().Answer(worker)->Joined());
  }
}

TEST_F(ShardTaskTest, ARoundsWeightsAreSentOnceForAllWorkers) {
  AppendAndFoldRound();
  ASSERT_THAT(out_, SizeIs(1));
  const SharedWeights shared = SharedIn(out_[0]);
  EXPECT_THAT(shared.slice().dense(),
              ::testing::ElementsAreArray(task_->processor().shard().weights()));
  for (WorkerId worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(Whole(shared, worker), task_->processor().Answer(worker)->Joined());
  }
}

TEST_F(ShardTaskTest, PublishesItsWeightsWhenTheyHaveChangedOrTheTopicMayHaveLostThem) {
  AppendAndFold(Update(0, 0, std::vector<float>(kRange.size(), 1), kRange));
  out_.clear();
  EXPECT_TRUE(*task_->PublishWeights(out_));
  ASSERT_THAT(out_, SizeIs(1));
  const SharedWeights first = SharedIn(out_[0]);
  EXPECT_FALSE(*task_->PublishWeights(out_));
  task_->PublishWeightsAgain();
  EXPECT_TRUE(*task_->PublishWeights(out_));
  ASSERT_THAT(out_, SizeIs(2));
  EXPECT_EQ(SharedIn(out_[1]).SerializeAsString(), first.SerializeAsString());
  EXPECT_FALSE(*task_->PublishWeights(out_));
}

TEST_F(ShardTaskTest, SendsNoValuesToWorkersThatHaveLeft) {
  AppendAndFoldRound();
  for (WorkerId worker = 0; worker < 3; ++worker) {
    AppendAndFold(Message(Gradient::kLeave, worker, 1));
  }
  out_.clear();
  ASSERT_TRUE(task_->Announce(out_).ok());
  ASSERT_THAT(out_, SizeIs(3));
  for (WorkerId worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(out_[worker].partition, static_cast<int32_t>(worker));
    EXPECT_EQ(ParseFrame(out_[worker].value)->body, task_->processor().Answer(worker)->Joined());
  }
}

// Only to itself is a worker's answer of use that it has asked for.
TEST_F(ShardTaskTest, AWorkerThatAsksIsAnsweredOnItsOwnPartition) {
  AppendAndFoldRound();
  out_.clear();
  AppendAndFold(Message(Gradient::kAsk, 1, 1));
  ASSERT_THAT(out_, SizeIs(1));
  EXPECT_EQ(out_[0].partition, 1);
  EXPECT_EQ(ParseFrame(out_[0].value)->body, task_->processor().Answer(1)->Joined());
}

TEST_F(ShardTaskTest, AWorkerThatWantsEmbeddingRowsGetsThemBesideTheSharedWeights) {
  ServerOptions options = SmallServer();
  options.embeddings.emplace();
  options.embeddings->initial_limit.assign(5, 0.5f);
  Use(options);
  for (WorkerId worker = 0; worker < 3; ++worker) {
    Gradient update = Update(worker, 0, std::vector<float>(kRange.size(), 1), kRange);
    if (worker == 1) update.mutable_update()->add_wanted(7);
    AppendAndFold(update);
  }
  ASSERT_THAT(out_, SizeIs(2));
  const SharedWeights shared = SharedIn(out_[0]);
  EXPECT_THAT(shared.answers(), SizeIs(2));
  EXPECT_FALSE(AnswerFrom(shared, 1));
  EXPECT_EQ(out_[1].partition, 1);
  Weights answer;
  ASSERT_TRUE(answer.ParseFromString(std::string(ParseFrame(out_[1].value)->body)));
  EXPECT_EQ(answer.shared(), shared.version());
  EXPECT_EQ(answer.embeddings().id_size(), 1);
  EXPECT_FALSE(answer.has_slice());
}

TEST_F(ShardTaskTest, WorkersThatGetRowsAndNothingElseAreAnsweredByARecordEach) {
  ParameterJob job({{.size = 2, .handler = "sgd", .is_table = true}}, 1, 2, kSequential);
  Use(job.server(0).options());
  const auto update = [&](WorkerId worker, Clock clock, bool wants) {
    Gradient message = job.PartOfUpdate(0, worker, clock, {.rows = {{0, {{1, {1, 2}}}}}});
    if (wants) message.mutable_update()->add_wanted(job.RowOf(0, 5));
    AppendAndFold(message);
  };
  for (WorkerId worker = 0; worker < 2; ++worker) update(worker, Clock(0), true);
  ASSERT_THAT(out_, SizeIs(2));
  for (WorkerId worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(out_[worker].partition, static_cast<int32_t>(worker));
    Weights answer;
    ASSERT_TRUE(answer.ParseFromString(std::string(ParseFrame(out_[worker].value)->body)));
    EXPECT_FALSE(answer.has_shared());
    EXPECT_EQ(answer.embeddings().id_size(), 1);
  }
  out_.clear();
  for (WorkerId worker = 0; worker < 2; ++worker) update(worker, Clock(1), worker == 0);
  ASSERT_THAT(out_, SizeIs(2));
  EXPECT_TRUE(AnswerFrom(SharedIn(out_[0]), 1)) << "who gets no rows has a part in the shared one";
  EXPECT_EQ(out_[1].partition, 0);
}

TEST_F(ShardTaskTest, OtherShardsGoOnWithTheRowsThatHadNotExpiredAtTheLastStep) {
  ServerOptions options = SmallServer();
  options.workers = 2;
  options.embeddings.emplace();
  options.embeddings->initial_limit.assign(5, 0.5f);
  options.embeddings->expire_after_ms = 5;
  Use(options);
  for (WorkerId worker = 0; worker < 2; ++worker) {
    Gradient update = Update(worker, 0, std::vector<float>(kRange.size(), 1), kRange);
    EmbeddingBlock& rows = *update.mutable_update()->mutable_embeddings();
    rows.add_id(7);
    for (size_t i = 0; i < 5; ++i) rows.add_value(1);
    AppendAndFold(update);
  }
  AppendAndFold(Update(0, 1, std::vector<float>(kRange.size(), 1), kRange));  // 10 ms later
  Checkpoint();
  FirstCheckpoint first(options_, SnapshotStart::kSameStream);
  first.AddState(0, SnapshotStateFrom(task_->processor()));
  ASSERT_TRUE(AddSealedValues(options_, *store_, first).ok());
  EXPECT_EQ(first.Finish()->rows.size(), 1u);
}

// Two instances of a shard, one of them replaced, may answer different workers at one position.
TEST_F(ShardTaskTest, SharedRecordsToOtherWorkersAreOtherMessages) {
  options_.max_frame_bytes = 40;
  Use(options_);
  AppendAndFoldRound();
  const std::vector<Received> round = Take(out_);
  AppendAndFold(Message(Gradient::kLeave, 2, 1));
  out_.clear();
  ASSERT_TRUE(task_->Announce(out_).ok());
  ASSERT_GT(out_.size(), 1u);
  EXPECT_NE(ParseFrame(round[0].value)->message_id, ParseFrame(out_[0].value)->message_id);
  const std::vector<Received> again = Take(out_);
  ASSERT_TRUE(task_->Announce(out_).ok());
  EXPECT_EQ(Take(out_), again) << "the same message again";
}

TEST_F(ShardTaskTest, ALargeAnswerIsSplitAndItsChunksAreKeyedByShardAndNumber) {
  options_.max_frame_bytes = 30;
  options_.shard = 1;
  options_.shards = 2;
  Use(options_);
  AppendAndFold(Message(Gradient::kAsk, 2, 0));
  ASSERT_GT(out_.size(), 1u);
  ChunkJoiner joiner;
  std::optional<std::string> body;
  for (uint32_t chunk = 0; chunk < out_.size(); ++chunk) {
    EXPECT_EQ(out_[chunk].partition, 2);
    EXPECT_EQ(out_[chunk].key, EncodeBigEndian32(1) + EncodeBigEndian32(chunk));
    EXPECT_LE(out_[chunk].value.size(), 30u);
    body = *joiner.Add(0, *ParseFrame(out_[chunk].value));
  }
  EXPECT_EQ(body, task_->processor().Answer(2)->Joined());
}

// One answer for each worker may be larger than memory.
TEST_F(ShardTaskTest, AnsweringAllWorkersTakesTheMemoryOfOneAnswer) {
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  if (in_use() == 0) GTEST_SKIP() << "a sanitizer's allocator does not count";
  constexpr size_t kAnswerBytes = size_t{4} << 20;
  constexpr uint32_t kWorkers = 50;
  ServerOptions options = SmallServer();
  options.workers = kWorkers;
  options.range = {0, kAnswerBytes / sizeof(float)};
  Use(options);
  const size_t before = in_use();
  size_t most = 0;
  size_t bytes = 0;
  const RecordSink sink([&](const OutgoingRecord& record) {
    bytes += record.value.size();
    most = std::max(most, in_use() - before);
    return absl::OkStatus();
  });
  ASSERT_TRUE(task_->Announce(sink).ok());
  EXPECT_LE(bytes, kAnswerBytes + 100 * kWorkers);
  EXPECT_LE(most, 5 * kAnswerBytes) << "the message, its bytes and its frames";
}

// (One record, instead of one for each update.)
TEST_F(ShardTaskTest, WorkersWhoseUpdatesWereFoldedTogetherAreAnsweredByOneRecord) {
  ServerOptions options = SmallServer(kEventual);
  options.workers = 3;
  Use(options);
  for (const WorkerId worker : {WorkerId(0), WorkerId(2)}) {
    const LogRecord record =
        RecordOf(Update(worker, 0, std::vector<float>(kRange.size(), 1), kRange));
    ASSERT_TRUE(task_->Fold({task_->position(), record.key, record.value, 0}).ok());
  }
  EXPECT_TRUE(task_->owes_answers());
  out_.clear();
  ASSERT_TRUE(task_->AnswerDue(out_).ok());
  EXPECT_FALSE(task_->owes_answers());
  ASSERT_EQ(out_.size(), 1u);
  EXPECT_EQ(out_[0].partition, SharedWeightsPartition(3));
  const SharedWeights shared = SharedIn(out_[0]);
  ASSERT_EQ(shared.answers_size(), 2);
  EXPECT_EQ(shared.answers(0).worker(), 0u);
  EXPECT_EQ(shared.answers(1).worker(), 2u);
  EXPECT_EQ(shared.answers(1).clock(), 1u);
}

TEST_F(ShardTaskTest, WhoAsksIsAnsweredByTheNumberOfItsMessageAndOnItsOwnPartition) {
  ServerOptions options = SmallServer(kEventual);
  options.workers = 3;
  Use(options);
  const auto fold = [&](Gradient message, uint64_t number) {
    message.set_number(number);
    const LogRecord record = RecordOf(message);
    ASSERT_TRUE(task_->Fold({task_->position(), record.key, record.value, 0}).ok());
  };
  const std::vector<float> ones(kRange.size(), 1);
  fold(Update(0, 0, ones, kRange), 5);
  fold(Message(Gradient::kAsk, 1, 0), 6);
  fold(Update(2, 3, ones, kRange), 7);  // which is not due
  out_.clear();
  ASSERT_TRUE(task_->AnswerDue(out_).ok());
  std::map<int32_t, uint64_t> answers_to;
  for (const OutgoingRecord& record : out_) {
    Weights answer;
    ASSERT_TRUE(answer.ParseFromString(std::string(ParseFrame(record.value)->body)));
    answers_to[record.partition] = answer.answers_to();
  }
  EXPECT_EQ(answers_to, (std::map<int32_t, uint64_t>{{0, 0}, {1, 6}, {2, 7}}));
}

TEST_F(ShardTaskTest, WhatItsAnswersCannotBeGivenToEndsTheCall) {
  int taken = 0;
  const RecordSink full([&](const OutgoingRecord&) {
    ++taken;
    return absl::CancelledError("stopped");
  });
  EXPECT_TRUE(absl::IsCancelled(task_->Announce(full)));
  EXPECT_EQ(taken, 1);
}

// ---- checkpoints ----

TEST_F(ShardTaskTest, ACheckpointIsMadeOnlyWhenSomethingHasCome) {
  EXPECT_FALSE(task_->BeginCheckpoint()->has_value());
  AppendAndFoldRound();
  EXPECT_EQ(task_->unsaved().records, 3u);
  EXPECT_GT(task_->unsaved().bytes, 0u);
  EXPECT_EQ(task_->unsaved_updates(), 3u);
  const std::optional<millrace::Checkpoint> checkpoint = *task_->BeginCheckpoint();
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->position, 3);
  EXPECT_THAT(checkpoint->blocks, ElementsAre(0));
  EXPECT_THAT(checkpoint->entries, SizeIs(2));
  EXPECT_EQ(task_->unsaved().records, 0u);
  EXPECT_EQ(task_->unsaved().bytes, 0u);
  EXPECT_EQ(task_->unsaved_updates(), 3u) << "until it is done";
  EXPECT_FALSE(task_->BeginCheckpoint()->has_value());
}

TEST_F(ShardTaskTest, AStateLargerThanAMessageIsSavedInPiecesAndLoaded) {
  options_.most_message_bytes = 200;
  Use(options_);
  AppendAndFoldRound();
  for (const WorkerId worker : std::vector<WorkerId>{0, 2}) {  // held for the round
    AppendAndFold(Update(worker, 1, std::vector<float>(kRange.size(), 2), kRange));
  }
  ShardState state;
  task_->processor().SaveState(state);
  ASSERT_GT(EncodeState(state, 200)->size(), 2u) << "more than one piece and its length";
  Checkpoint();
  MemoryByteMap empty;
  const StatusOr<std::unique_ptr<ShardTask>> copy = Load(empty);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(AllBytes(**copy), AllBytes(*task_));
}

// A state of which nothing is saved, and then a log that is trimmed, would be the end of the shard.
TEST_F(ShardTaskTest, AStateThatCannotBeSavedIsAnErrorBeforeTheCommit) {
  AppendAndFoldRound();
  Checkpoint();
  const size_t saved = log_.parameters.size();
  options_.most_message_bytes = 60;
  StatusOr<std::unique_ptr<ShardTask>> task = Load(*store_);
  ASSERT_TRUE(task.ok()) << task.status();
  task_ = *std::move(task);
  ASSERT_TRUE(task_->StartReplay(0, End()).ok());
  AppendAndFold(Update(0, 1, std::vector<float>(kRange.size(), 2), kRange));
  const Status status = task_->BeginCheckpoint().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0: its state at offset 4"));
  EXPECT_EQ(task_->unsaved().records, 1u);
  EXPECT_EQ(log_.parameters.size(), saved);
  EXPECT_EQ(log_.gradients_begin, 2) << "as the checkpoint before has left it";
}

TEST_F(ShardTaskTest, DeadLettersAreAmongTheBytesThatAreNotSaved) {
  AppendAndFold(LogRecord{"key", std::string(100'000, 'x')});
  EXPECT_GE(task_->unsaved().bytes, 100'000u);
  const std::optional<millrace::Checkpoint> failed = *task_->BeginCheckpoint();
  EXPECT_EQ(task_->unsaved().bytes, 0u);
  task_->CheckpointFailed(*failed);
  EXPECT_GE(task_->unsaved().bytes, 100'000u);
}

TEST_F(ShardTaskTest, ALoadedCheckpointCountsAsSaved) {
  AppendAndFoldRound();
  EXPECT_FALSE(task_->saved());
  Checkpoint();
  EXPECT_TRUE(task_->saved());
  const StatusOr<std::unique_ptr<ShardTask>> loaded = Load(*store_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE((*loaded)->saved());
  EXPECT_EQ((*loaded)->unsaved_updates(), 0u);
  EXPECT_EQ((*loaded)->unsaved().records, 0u);
  EXPECT_FALSE((*loaded)->BeginCheckpoint()->has_value());
  AppendAndFoldRound();
  const StatusOr<std::unique_ptr<ShardTask>> later = Recover(*store_);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_FALSE((*later)->saved());
  EXPECT_EQ((*later)->unsaved_updates(), 3u);
}

TEST_F(ShardTaskTest, TheRowsOfEmbeddingsAreAmongTheBytesThatAreNotSaved) {
  ServerOptions options = SmallServer();
  options.embeddings.emplace();
  options.embeddings->initial_limit.assign(5, 0.5f);
  Use(options);
  const auto update = [&](WorkerId worker, bool with_rows) {
    const Clock clock = task_->processor().clocks().clock(worker);
    Gradient message = Update(worker, clock, std::vector<float>(kRange.size(), 1), kRange);
    if (with_rows) {
      for (EmbeddingId id = 0; id < 100; ++id)
        message.mutable_update()->mutable_embeddings()->add_id(id);
      message.mutable_update()->mutable_embeddings()->mutable_value()->Resize(500, 1.0f);
    }
    AppendAndFold(message);
  };
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2}) update(worker, false);
  const size_t dense = task_->unsaved().bytes;
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2}) update(worker, true);
  EXPECT_GE(task_->unsaved().bytes, dense + 100 * 5 * sizeof(float));
  Checkpoint();
  EXPECT_EQ(task_->unsaved().bytes, 0u);
  EXPECT_EQ(task_->processor().embeddings()->unsaved(), 0u) << "they may leave the cache";
}

// A worker's two answers of one position: of the clock that the shard has come to, and of the one
// before. Cut into chunks they may interleave in the topic, so they must not share an id.
TEST_F(ShardTaskTest, TheAnswersOfAClockAndOfTheOneBeforeAreTwoMessages) {
  ServerOptions options = SmallServer();
  options.workers = 1;
  options.shards = 2;
  options.range = kRange;
  options.max_frame_bytes = 40;
  Use(options);
  AppendAndFoldRound();
  out_.clear();
  AppendAndFold(Message(Gradient::kAsk, 0, 0));
  const std::vector<Received> of_the_clock_before = Take(out_);
  ASSERT_TRUE(task_->Announce(out_).ok());
  const std::vector<Received> of_the_clock = Take(out_);
  ASSERT_GT(of_the_clock_before.size(), 1u);
  ASSERT_GT(of_the_clock.size(), 1u);
  ChunkJoiner joiner;
  std::vector<Clock> clocks;
  for (size_t i = 0; i < std::max(of_the_clock.size(), of_the_clock_before.size()); ++i) {
    for (const auto* records : {&of_the_clock, &of_the_clock_before}) {
      if (i >= records->size()) continue;
      const StatusOr<Frame> frame = ParseFrame((*records)[i].value);
      ASSERT_TRUE(frame.ok()) << frame.status();
      const std::optional<std::string> body = *joiner.Add(0, *frame);
      if (!body) continue;
      Weights message;
      ASSERT_TRUE(message.ParseFromString(*body));
      clocks.push_back(Clock(message.clock()));
    }
  }
  EXPECT_THAT(clocks, ::testing::UnorderedElementsAreArray<Clock>({0, 1}));
}

TEST_F(ShardTaskTest, ACheckpointIsFrozenWhileTrainingGoesOn) {
  AppendAndFoldRound();
  const std::string at_checkpoint = AllBytes(*task_);
  CheckpointRun run(**task_->BeginCheckpoint(), log_, *store_);
  AppendAndFoldRound(5);
  while (!run.done()) ASSERT_TRUE(run.Step().ok());
  const StatusOr<std::unique_ptr<ShardTask>> copy = Load(*store_);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(AllBytes(**copy), at_checkpoint);
}

TEST_F(ShardTaskTest, ACheckpointHoldsOnlyTheBlocksThatWereUpdated) {
  AppendAndFoldRound();
  Checkpoint();
  AppendAndFold(Message(Gradient::kAsk, 0, 0));
  const std::optional<millrace::Checkpoint> checkpoint = *task_->BeginCheckpoint();
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_THAT(checkpoint->blocks, IsEmpty());
  EXPECT_THAT(checkpoint->entries, SizeIs(1)) << "the state, since the position has moved";
}

TEST_F(ShardTaskTest, AFailedCheckpointGivesItsBlocksAndDeadLettersBack) {
  AppendAndFold(LogRecord{"key", "first damaged"});
  AppendAndFoldRound();
  const std::optional<millrace::Checkpoint> failed = *task_->BeginCheckpoint();
  ASSERT_TRUE(failed.has_value());
  AppendAndFold(LogRecord{"key", "second damaged"});
  task_->CheckpointFailed(*failed);
  EXPECT_GT(task_->unsaved().records, 0u) << "so that the next one is not put off";
  EXPECT_GT(task_->unsaved().bytes, 0u);
  const std::optional<millrace::Checkpoint> next = *task_->BeginCheckpoint();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(next->blocks, ElementsAre(0));
  ASSERT_THAT(next->dead_letters, SizeIs(2));
  EXPECT_EQ(next->dead_letters[0], failed->dead_letters[0]);
}

TEST_F(ShardTaskTest, AFailedCheckpointIsTriedAgainEvenIfNothingHasComeSince) {
  AppendAndFoldRound();
  const std::optional<millrace::Checkpoint> failed = *task_->BeginCheckpoint();
  task_->CheckpointFailed(*failed);
  const std::optional<millrace::Checkpoint> next = *task_->BeginCheckpoint();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->position, failed->position);
  EXPECT_EQ(next->blocks, failed->blocks);
}

TEST_F(ShardTaskTest, ADeadLetterTooLargeForARecordIsCutNotSplit) {
  const std::string value(2 * kMaxFrameBytes, 'x');
  const std::string key(2 * kMaxFrameBytes, 'y');
  AppendAndFold(LogRecord{key, value});
  const std::optional<millrace::Checkpoint> checkpoint = *task_->BeginCheckpoint();
  ASSERT_THAT(checkpoint->dead_letters, SizeIs(1));
  EXPECT_LE(checkpoint->dead_letters[0].size(), kMaxFrameBytes);
  const StatusOr<Frame> frame = ParseFrame(checkpoint->dead_letters[0]);
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->is_chunk);
  DeadLetter letter;
  ASSERT_TRUE(letter.ParseFromString(std::string(frame->body)));
  EXPECT_THAT(letter.reason(), HasSubstr("not a worker"));
  EXPECT_TRUE(value.starts_with(letter.value()));
}

TEST_F(ShardTaskTest, ADeadLetterOfAnUpdateIsCutNotSplitWhateverItsReason) {
  Gradient update = Update(0, 0, std::vector<float>(6, 1), kRange);
  update.mutable_update()->add_dead_letters()->set_reason(std::string(2 * kMaxFrameBytes, 'r'));
  for (const std::string& frame : MakeFrames(update.SerializeAsString(), 7)) {
    AppendAndFold(LogRecord{EncodeBigEndian32(0), frame});
  }
  for (const WorkerId worker : std::vector<WorkerId>{1, 2}) {
    AppendAndFold(Update(worker, 0, std::vector<float>(6, 1), kRange));
  }
  const std::optional<millrace::Checkpoint> checkpoint = *task_->BeginCheckpoint();
  ASSERT_THAT(checkpoint->dead_letters, SizeIs(1));
  const StatusOr<Frame> frame = ParseFrame(checkpoint->dead_letters[0]);
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->is_chunk);
}

TEST_F(ShardTaskTest, AShardWithoutAnyCopyGoesOnFromTheWorkersOnlyIfThatIsWanted) {
  const MemoryByteMap empty;
  ShardTask refuses(options_, empty);
  ASSERT_TRUE(refuses.Load().ok());
  const Status status = refuses.StartReplay(7, 9);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--weights-from-workers"));
  EXPECT_FALSE(refuses.processor().state_lost());

  ServerOptions options = options_;
  options.weights_from_workers = true;
  ShardTask whole(options, empty);
  ASSERT_TRUE(whole.Load().ok());
  ASSERT_TRUE(whole.StartReplay(0, 9).ok());
  EXPECT_FALSE(whole.processor().state_lost()) << "the log has everything";

  ShardTask lost(options, empty);
  ASSERT_TRUE(lost.Load().ok());
  ASSERT_TRUE(lost.StartReplay(7, 9).ok());
  EXPECT_TRUE(lost.processor().state_lost());
  EXPECT_EQ(lost.gradients_position(), 7);
  EXPECT_FALSE(lost.replayed());

  // A store that has a state is no lost one, wherever the log begins.
  AppendAndFoldRound();
  Checkpoint();
  ShardTask stored(options, *store_);
  ASSERT_TRUE(stored.Load().ok());
  EXPECT_TRUE(absl::IsDataLoss(stored.StartReplay(100, 120)));
  EXPECT_FALSE(stored.processor().state_lost());
}

TEST_F(ShardTaskTest, AnswersNobodyBeforeItHasSeenTheRecordThatItsCheckpointRemembers) {
  AppendAndFoldRound();
  Checkpoint();
  ShardTask task(options_, *store_);
  ASSERT_TRUE(task.Load().ok());
  ASSERT_TRUE(task.StartReplay(0, End()).ok());
  EXPECT_FALSE(task.replayed());
  ASSERT_TRUE(Fold(task, task.gradients_position(), out_).ok());
  EXPECT_TRUE(task.replayed());
}

TEST_F(ShardTaskTest, AnswersAtOnceWhenAllThatItsCheckpointHasWasDeleted) {
  AppendAndFoldRound();
  Checkpoint();
  ShardTask task(options_, *store_);
  ASSERT_TRUE(task.Load().ok());
  ASSERT_TRUE(task.StartReplay(End(), End()).ok());
  EXPECT_TRUE(task.replayed());
}

}  // namespace
}  // namespace millrace
