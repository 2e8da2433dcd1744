#include "tasks/shard_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/state_codec.h"
#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/memory_checkpoint_log.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr KeyRange kRange = {0, 6};

struct Received {
  Topic topic;
  int32_t partition;
  std::string key;
  std::string value;
  bool operator==(const Received&) const = default;
};

std::vector<Received> Take(std::vector<OutgoingRecord>& out) {
  std::vector<Received> received;
  for (OutgoingRecord& record : out) {
    received.push_back({record.topic, record.partition, record.key, record.value});
  }
  out.clear();
  return received;
}

std::string EmbeddingBytes(const ShardTask& task) {
  if (task.processor().embeddings() == nullptr) return "";
  const std::vector<EmbeddingId> ids = EmbeddingsOf(SmallServer());
  std::vector<float> values(ids.size() * task.processor().embeddings()->width());
  EXPECT_TRUE(task.processor().ReadEmbeddings(ids, values).ok());
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// All of a task's state as bytes.
std::string StateBytes(const ShardTask& task) {
  ShardState state;
  task.processor().SaveState(state);
  state.set_position(task.position());
  std::string bytes = state.SerializeAsString();
  for (size_t block = 0; block < task.processor().shard().block_count(); ++block) {
    bytes += task.processor().shard().EncodeBlock(block).value;
  }
  return bytes + EmbeddingBytes(task);
}

// A shard, its topics and its disk. Crash and Recover are the two commands a session knows.
class ShardTaskTest : public ::testing::Test {
 protected:
  void SetUp() override { Use(SmallServer()); }

  void Use(const ServerOptions& options) {
    options_ = options;
    gradients_.clear();
    log_ = MemoryCheckpointLog();
    store_ = std::make_unique<MemoryByteMap>();
    task_ = std::make_unique<ShardTask>(options_, *store_);
    ASSERT_TRUE(task_->StartReplay(0, 0).ok());
  }

  Status Fold(ShardTask& task, Offset offset, std::vector<OutgoingRecord>& out) {
    const LogRecord& record = gradients_[static_cast<size_t>(offset)];
    return task.ProcessGradient({offset, record.key, record.value, 10 * offset}, out);
  }

  void Append(const LogRecord& record) { gradients_.push_back(record); }
  void AppendAndFold(const LogRecord& record) {
    Append(record);
    const Status status = Fold(*task_, End() - 1, out_);
    ASSERT_TRUE(status.ok()) << status;
  }
  void AppendAndFold(const Gradient& message) { AppendAndFold(RecordOf(message)); }
  void AppendAndFoldRound(float value = 1) {
    for (WorkerId worker = 0; worker < options_.workers; ++worker) {
      const Clock clock = task_->processor().clocks().clock(worker);
      AppendAndFold(Update(worker, clock, std::vector<float>(kRange.size(), value), kRange));
    }
  }

  Offset End() const { return static_cast<Offset>(gradients_.size()); }

  // Some of the three steps of a checkpoint.
  void Checkpoint(int steps = 3) {
    std::optional<millrace::Checkpoint> checkpoint = *task_->BeginCheckpoint();
    if (!checkpoint) return;
    CheckpointRun run(*std::move(checkpoint), log_, *store_);
    for (int step = 0; step < steps; ++step) ASSERT_TRUE(run.Step().ok());
    if (run.done()) task_->CheckpointDone(run.checkpoint());
  }

  // Brings the copy up to the end of `parameters` and takes what it has.
  StatusOr<std::unique_ptr<ShardTask>> Load(MemoryByteMap& store) {
    MILLRACE_ASSIGN_OR_RETURN(const Offset from, ReadParametersOffset(store));
    CheckpointAssembler assembler;
    for (auto i = static_cast<size_t>(from); i < log_.parameters.size(); ++i) {
      const Checkpoint::Entry& entry = log_.parameters[i];
      if (entry.key.empty()) continue;
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<CheckpointAssembler::Part> part,
                                assembler.Add(static_cast<Offset>(i), entry.key, entry.value));
      if (part) MILLRACE_RETURN_IF_ERROR(store.Write(BatchOf(part->entries, part->end)));
    }
    if (assembler.unfinished()) return absl::DataLossError("a part is missing");
    auto task = std::make_unique<ShardTask>(options_, store);
    MILLRACE_RETURN_IF_ERROR(task->Load());
    return task;
  }

  // The whole procedure of recovery.
  StatusOr<std::unique_ptr<ShardTask>> Recover(MemoryByteMap& store) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ShardTask> task, Load(store));
    MILLRACE_RETURN_IF_ERROR(task->StartReplay(log_.gradients_begin, End()));
    std::vector<OutgoingRecord> out;
    for (Offset offset = task->gradients_position(); offset < End(); ++offset) {
      MILLRACE_RETURN_IF_ERROR(Fold(*task, offset, out));
    }
    EXPECT_TRUE(task->replayed());
    EXPECT_THAT(out, IsEmpty()) << "answers of long ago";
    return task;
  }

  ServerOptions options_;
  std::vector<LogRecord> gradients_;
  MemoryCheckpointLog log_;
  std::unique_ptr<MemoryByteMap> store_;
  std::unique_ptr<ShardTask> task_;
  std::vector<OutgoingRecord> out_;
};

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
      ASSERT_TRUE(StateBytes(**recovered) == StateBytes(live)) << "trial " << trial;
      task_ = *std::move(recovered);
      ASSERT_TRUE(task_->Announce(out_).ok());
      ASSERT_TRUE(live.Announce(live_out).ok());
      ASSERT_TRUE(Take(out_) == Take(live_out));
    }
    ASSERT_TRUE(StateBytes(*task_) == StateBytes(live));
    Checkpoint();
    const StatusOr<std::unique_ptr<ShardTask>> copy = Recover(*store_);
    ASSERT_TRUE(copy.ok()) << copy.status();
    ASSERT_TRUE(StateBytes(**copy) == StateBytes(live)) << "the store alone must suffice";
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

TEST_F(ShardTaskTest, RecoveryReplaysOnlyWhatStandsBehindTheCheckpoint) {
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
    EXPECT_EQ(StateBytes(**task), StateBytes(*task_));
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
  EXPECT_THAT(std::string(status.message()), HasSubstr("gradients, partition 0, offset 5"));
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
  const std::string before = StateBytes(*task_);
  out_.clear();
  for (Offset offset = 0; offset < End(); ++offset) EXPECT_TRUE(Fold(*task_, offset, out_).ok());
  EXPECT_EQ(StateBytes(*task_), before);
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
  EXPECT_TRUE(absl::IsDataLoss(ShardTask(options_, store).Load()));
}

// ---- answers ----

TEST_F(ShardTaskTest, AnswersAreOnlyGivenBehindTheEndOfTheReplay) {
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
  ASSERT_THAT(out_, SizeIs(3));
  for (WorkerId worker = 0; worker < 3; ++worker) {
    const OutgoingRecord& record = out_[worker];
    EXPECT_EQ(record.topic, Topic::kWeights);
    EXPECT_EQ(record.partition, static_cast<int32_t>(worker));
    EXPECT_EQ(record.key, EncodeBigEndian32(0) + EncodeBigEndian32(0));
    EXPECT_EQ(ParseFrame(record.value)->body, *task_->processor().Answer(worker));
  }
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
  EXPECT_EQ(body, *task_->processor().Answer(2));
}

// Answers to all workers may be larger than memory: each is made when the one before was taken.
TEST_F(ShardTaskTest, OneAnswerAtATimeIsInMemory) {
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
  std::set<int32_t> answered;
  const RecordSink sink([&](const OutgoingRecord& record) {
    answered.insert(record.partition);
    most = std::max(most, in_use() - before);
    return absl::OkStatus();
  });
  ASSERT_TRUE(task_->Announce(sink).ok());
  EXPECT_THAT(answered, SizeIs(kWorkers));
  EXPECT_LE(most, 5 * kAnswerBytes) << "the message, its bytes and its frames";
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
  EXPECT_EQ(StateBytes(**copy), StateBytes(*task_));
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
  const StatusOr<std::unique_ptr<ShardTask>> behind = Recover(*store_);
  ASSERT_TRUE(behind.ok()) << behind.status();
  EXPECT_FALSE((*behind)->saved());
  EXPECT_EQ((*behind)->unsaved_updates(), 3u);
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
}

// A worker's two answers of one position: of the clock that the shard has come to, and of the one
// before. Cut into chunks they may interleave in the topic, so they must not share an id.
TEST_F(ShardTaskTest, TheAnswersOfAClockAndOfTheOneBeforeAreTwoMessages) {
  ServerOptions options = SmallServer();
  options.shards = 2;
  options.range = kRange;
  options.max_frame_bytes = 40;
  Use(options);
  AppendAndFoldRound();
  out_.clear();
  AppendAndFold(Message(Gradient::kAsk, 1, 0));
  const std::vector<Received> of_the_clock_before = Take(out_);
  ASSERT_TRUE(task_->Announce(out_).ok());
  std::vector<Received> of_the_clock = Take(out_);
  std::erase_if(of_the_clock, [](const Received& record) { return record.partition != 1; });
  ASSERT_GT(of_the_clock_before.size(), 1u);
  ASSERT_GT(of_the_clock.size(), 1u);
  ChunkJoiner joiner;
  std::vector<Clock> clocks;
  for (size_t i = 0; i < std::max(of_the_clock.size(), of_the_clock_before.size()); ++i) {
    for (const auto* records : {&std::as_const(of_the_clock), &of_the_clock_before}) {
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
  const std::string at_checkpoint = StateBytes(*task_);
  CheckpointRun run(**task_->BeginCheckpoint(), log_, *store_);
  AppendAndFoldRound(5);
  while (!run.done()) ASSERT_TRUE(run.Step().ok());
  const StatusOr<std::unique_ptr<ShardTask>> copy = Load(*store_);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(StateBytes(**copy), at_checkpoint);
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
