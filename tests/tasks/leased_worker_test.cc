// A worker whose rows are leased to it, from several partitions, in front of a real shard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "processors/input_cutter.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tasks/worker_task.h"
#include "tests/tasks/fold_and_answer.h"
#include "tests/tasks/worker_task_fixture.h"

namespace millrace {
namespace {

constexpr uint32_t kLeasedPartitions = 3;

// The master: says what shard 0 has counted, and cuts what there is in the same order in each run.
class LeasingMaster {
 public:
  LeasingMaster(const std::vector<InputLog>& logs, uint64_t lease_rows) : logs_(logs) {
    LeaseCommand begin;
    begin.mutable_begin()->set_workers(1);
    begin.mutable_begin()->set_partitions(kLeasedPartitions);
    Apply(begin);
    cutter_.emplace(lease_rows, kTaskShape, table_);
  }

  const WorkerLeases& leases() const { return table_.workers().at(0); }
  std::vector<InputState> tails() const {
    std::vector<InputState> tails;
    for (const auto& [partition, input] : table_.inputs()) {
      if (input.ended()) tails.push_back(input);
    }
    return tails;
  }
  void Count(RowNumber rows, Clock clock) {
    LeaseCommand command;
    command.mutable_counted()->add_worker()->set_rows(rows);
    command.mutable_counted()->mutable_worker(0)->set_clock(clock);
    Apply(command);
  }
  void CutSome() {
    for (uint32_t partition = 0; partition < kLeasedPartitions; ++partition) {
      const Offset offset = cutter_->next_offset(partition);
      if (offset >= logs_[partition].end()) continue;
      const InputLog::Record& record = logs_[partition].records[static_cast<size_t>(offset)];
      ASSERT_TRUE(cutter_->Take(partition, offset, record.key, record.value).ok());
    }
    for (const LeaseCommand& command : cutter_->TakeCommands()) Apply(command);
  }

 private:
  void Apply(const LeaseCommand& command) {
    ASSERT_EQ(table_.Apply(command), absl::OkStatus()) << command.DebugString();
  }

  const std::vector<InputLog>& logs_;
  LeaseTable table_;
  std::optional<InputCutter> cutter_;
};

class LeasedWorkerTest : public WorkerTaskTest {
 protected:
  void Begin(const WorkerOptions& options, const LeasingMaster& master) {
    options_ = options;
    task_ = std::make_unique<WorkerTask>(options, kTaskShape, model_, ++attempts_);
    task_->StartLeased(master.leases(), master.tails());
    task_->Start(out_);
  }
  void ReadOne() {
    const std::optional<LeasedRows::Place> place = task_->NextLeased();
    if (!place || !task_->WantsRows()) return;
    const InputLog& log = logs_.at(place->partition);
    ASSERT_LT(place->offset, log.end());
    const InputLog::Record& record = log.records[static_cast<size_t>(place->offset)];
    ASSERT_EQ(task_->ProcessInput({place->offset, record.timestamp_ms, record.key, record.value}),
              absl::OkStatus());
  }

  std::vector<InputLog> logs_;
};

TEST_F(LeasedWorkerTest, HasNothingToCommitOrToDelete) {
  logs_.resize(kLeasedPartitions);
  logs_[0].AddRows(8);
  LeasingMaster master(logs_, 4);
  for (int i = 0; i < 8; ++i) master.CutSome();
  Begin(OnePass(), master);
  for (int i = 0; i < 8; ++i) ReadOne();
  Advance();
  Receive(Answer(1, 4));
  EXPECT_EQ(task_->buffered_rows(), 4u);
  EXPECT_EQ(task_->CommitPosition(), std::nullopt);
  EXPECT_EQ(task_->TrimPosition(), std::nullopt);
  EXPECT_FALSE(task_->ended());
}

// Killed anywhere, and begun again with what the plan says then: the model, the counts and the dead
// letters are those of the worker that lived, since both have the same leases.
TEST_F(LeasedWorkerTest, KilledAnywhereTheModelIsTheSameToTheByte) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    logs_.assign(kLeasedPartitions, InputLog());
    uint64_t rows = 0;
    uint64_t damaged = 0;
    for (InputLog& log : logs_) {
      log.AddAnything(random, RowNumber(random() % 60));
      for (uint64_t count = random() % 3; count > 0; --count) log.AddStranger();
      log.AddEnd();
      rows += log.rows;
      damaged += log.damaged;
    }
    const uint64_t lease_rows = 1 + random() % 20;
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
      LeasingMaster master(logs_, lease_rows);
      const WorkerOptions options = OnePass(1 + static_cast<uint32_t>(trial) % 7);
      Begin(options, master);
      for (int step = 0; step < 5000 && !task_->left(); ++step) {
        if (random() % 3 == 0) master.CutSome();
        for (uint64_t count = random() % 16; count > 0; --count) ReadOne();
        if (random() % 4 == 0) {
          master.Count(shard.processor().rows_end(0), shard.processor().clocks().clock(0));
        }
        if (random() % 4 == 0) {
          const bool followed = *task_->FollowLeases(master.leases(), master.tails());
          ASSERT_TRUE(followed || kill);
          if (!followed) Begin(options, master);
        }
        if (random() % 10 == 0) task_->Repeat(out_);
        if (kill && random() % 12 == 0) {
          out_.resize(random() % (out_.size() + 1));
          Begin(options, master);
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
      ASSERT_TRUE(task_->left()) << (kill ? "killed" : "left alone");
      const ServerProcessor& processor = shard.processor();
      ASSERT_EQ(processor.counters().undecodable_rows(), damaged);
      ShardState state;
      processor.SaveState(state);
      ASSERT_EQ(state.members(0).rows().end(), rows);
      ASSERT_EQ(processor.progressive().rows, processor.rows_trained());
      state.clear_counters();
      state.clear_partial();
      state.mutable_members(0)->clear_buffer_rows();
      results.push_back(state.SerializeAsString() + processor.shard().EncodeBlock(0).value);
    }
    ASSERT_TRUE(results[0] == results[1]);
  }
}

}  // namespace
}  // namespace millrace
