// A shard, its topics and its disk, for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/shard_task.h"
#include "tasks/state_codec.h"
#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/fold_and_answer.h"
#include "tests/tasks/memory_checkpoint_log.h"
#include "tests/tasks/state_bytes.h"

namespace millrace {

struct Received {
  Topic topic;
  int32_t partition;
  std::string key;
  std::string value;
  bool operator==(const Received&) const = default;
};

inline std::vector<Received> Take(std::vector<OutgoingRecord>& out) {
  std::vector<Received> received;
  for (OutgoingRecord& record : out) {
    received.push_back({record.topic, record.partition, record.key, record.value});
  }
  out.clear();
  return received;
}

inline std::string EmbeddingBytes(const ShardTask& task) {
  if (task.processor().embeddings() == nullptr) return "";
  const std::vector<EmbeddingId> ids = EmbeddingsOf(SmallServer());
  std::vector<float> values(ids.size() * task.processor().embeddings()->width());
  EXPECT_TRUE(task.processor().ReadEmbeddings(ids, values).ok());
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// All of a task's state as bytes.
inline std::string AllBytes(const ShardTask& task) {
  return StateBytes(task) + EmbeddingBytes(task);
}

// A shard, its topics and its disk. A test crashes and recovers it.
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
    return FoldAndAnswer(task, {offset, record.key, record.value, 10 * offset}, out);
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
    EXPECT_THAT(out, ::testing::IsEmpty()) << "answers of long ago";
    return task;
  }

  ServerOptions options_;
  std::vector<LogRecord> gradients_;
  MemoryCheckpointLog log_;
  std::unique_ptr<MemoryByteMap> store_;
  std::unique_ptr<ShardTask> task_;
  std::vector<OutgoingRecord> out_;
};

}  // namespace millrace
