// A worker whose rows are leased to it, from several partitions, in front of a real shard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "processors/input_cutter.h"
#include "processors/lease_table.h"
#include "stores/memory_byte_map.h"
#include "tasks/counted_rows.h"
#include "tasks/shard_task.h"
#include "tasks/worker_task.h"
#include "tests/tasks/fold_and_answer.h"
#include "tests/tasks/worker_task_fixture.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

constexpr uint32_t kLeasedPartitions = 3;

// The master: says what shard 0 has counted, and cuts what there is in the same order in each run.
class LeasingMaster {
 public:
  LeasingMaster(const std::vector<InputLog>& logs, uint64_t lease_rows, uint32_t open_leases = 3)
      : logs_(logs) {
    LeaseCommand begin;
    begin.mutable_begin()->set_workers(1);
    begin.mutable_begin()->set_partitions(kLeasedPartitions);
    begin.mutable_begin()->set_open_leases(open_leases);
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
  void Count(const ServerProcessor& shard) {
    now_ += CountedRows::kEvery;
    if (const auto command = counted_.Take(shard, now_)) Apply(*command);
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
  CountedRows counted_{1};
  CountedRows::Time now_;
};

// The shards of a job with one worker, which has nothing on a disk.
class Shards {
 public:
  Shards(uint32_t count, size_t pipeline) {
    for (ShardId shard(0); shard < count; ++shard) {
      ServerOptions server;
      server.shard = shard;
      server.shards = count;
      server.range = RangeOfShard(shard, count, 10);
      server.penalised_end = 8;
      server.numeric_columns = 1;
      server.pipeline = pipeline;
      if (pipeline > 1) server.consistency = ConsistencyPolicy::Eventual();
      shards_.push_back({std::make_unique<ShardTask>(server, no_disk_)});
      EXPECT_TRUE(shards_.back().task->StartReplay(0, 0).ok());
    }
  }

  const ServerProcessor& at(uint32_t shard) const { return shards_.at(shard).task->processor(); }
  // Adds the answers to `answers`.
  void Take(const OutgoingRecord& record, std::vector<OutgoingRecord>& answers) {
    Shard& shard = shards_.at(static_cast<size_t>(record.partition));
    ASSERT_TRUE(FoldAndAnswer(*shard.task, {shard.end++, record.key, record.value}, answers).ok());
  }

 private:
  struct Shard {
    std::unique_ptr<ShardTask> task;
    Offset end = 0;  // of its gradients
  };

  const MemoryByteMap no_disk_;
  std::vector<Shard> shards_;
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

struct LeasedJob {
  uint32_t shards;
  size_t pipeline;
  std::string name;
};

class LeasedJobTest : public LeasedWorkerTest, public testing::WithParamInterface<LeasedJob> {
 protected:
  void MakeLogs(std::mt19937& random) {
    logs_.assign(kLeasedPartitions, InputLog());
    rows_ = damaged_ = 0;
    for (InputLog& log : logs_) {
      log.AddAnything(random, RowNumber(random() % 60));
      for (uint64_t count = random() % 3; count > 0; --count) log.AddStranger();
      log.AddEnd();
      rows_ += log.rows;
      damaged_ += log.damaged;
    }
  }

  // Until the worker has left, or the test has failed; `kill`: it is killed now and then.
  void Run(std::mt19937& random, const WorkerOptions& options, uint64_t lease_rows, bool kill,
           Shards& shards) {
    LeasingMaster master(logs_, lease_rows, OpenLeases(GetParam().shards, GetParam().pipeline));
    Begin(options, master);
    for (int step = 0; step < 8000 && !task_->left(); ++step) {
      if (random() % 3 == 0) master.CutSome();
      for (uint64_t count = random() % 16; count > 0; --count) ReadOne();
      if (random() % 4 == 0) master.Count(shards.at(0));
      if (random() % 4 == 0) {
        const bool followed = *task_->FollowLeases(master.leases(), master.tails());
        ASSERT_TRUE(followed || kill);
        if (!followed) Begin(options, master);
      }
      if (random() % 10 == 0) task_->Repeat(out_);
      if (kill && random() % 12 == 0) {
        // Of what it has sent some partitions get more than others.
        for (size_t left = random() % (out_.size() + 1); left > 0; --left) {
          out_.erase(out_.begin() + static_cast<int64_t>(random() % out_.size()));
        }
        Begin(options, master);
      }
      std::vector<OutgoingRecord> answers;
      for (const OutgoingRecord& record : std::exchange(out_, {})) shards.Take(record, answers);
      for (const OutgoingRecord& answer : answers) {
        if (random() % 10 == 0) continue;  // a delivery that failed
        task_->ProcessWeights(0, answer.key, answer.value, out_);
      }
      ASSERT_NO_FATAL_FAILURE(Advance());
    }
    ASSERT_TRUE(task_->left()) << (kill ? "killed" : "left alone");
  }

  // What the shards have in the end: the model and the counts.
  std::string ResultOf(const Shards& shards) {
    EXPECT_EQ(shards.at(0).counters().undecodable_rows(), damaged_);
    EXPECT_EQ(shards.at(0).progressive().rows, shards.at(0).rows_trained());
    std::string result;
    for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
      ShardState state;
      shards.at(shard).SaveState(state);
      EXPECT_EQ(state.members(0).rows().end(), rows_);
      state.clear_counters();
      state.clear_partial();
      state.mutable_members(0)->clear_buffer_rows();
      result += state.SerializeAsString() + shards.at(shard).shard().EncodeBlock(0).value;
    }
    return result;
  }

  uint64_t rows_ = 0;
  uint64_t damaged_ = 0;
};

// Killed anywhere, and begun again with what the plan says then, the worker counts each row once.
// Where one update at a time is in flight the model, the counts and the dead letters are those of
// the worker that lived, since both have the same leases.
TEST_P(LeasedJobTest, KilledAnywhereTheModelIsTheSameToTheByte) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    MakeLogs(random);
    WorkerOptions options = OnePass(1 + static_cast<uint32_t>(trial) % 7);
    options.shards = GetParam().shards;
    options.pipeline = GetParam().pipeline;
    if (options.pipeline > 1) {
      options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
    }
    const uint64_t lease_rows = 1 + random() % 20;
    std::vector<std::string> results;
    for (const bool kill : {false, true}) {
      Shards shards(GetParam().shards, GetParam().pipeline);
      ASSERT_NO_FATAL_FAILURE(Run(random, options, lease_rows, kill, shards));
      results.push_back(ResultOf(shards));
    }
    ASSERT_TRUE(GetParam().pipeline > 1 || results[0] == results[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(, LeasedJobTest,
                         testing::Values(LeasedJob{1, 1, "OneShard"},
                                         LeasedJob{3, 1, "ThreeShards"},
                                         LeasedJob{1, 2, "OneShardTwoUpdates"},
                                         LeasedJob{2, 2, "TwoShardsTwoUpdates"},
                                         LeasedJob{2, 5, "TwoShardsFiveUpdates"}),
                         [](const auto& job) { return job.param.name; });

}  // namespace
}  // namespace millrace
