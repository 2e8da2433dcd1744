// A job of real tasks whose records pass through the fuzzer's hands.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "processors/server_options.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/shard_feed.h"
#include "tasks/shard_task.h"
#include "tasks/shared_weights_reader.h"
#include "tasks/trainer_task.h"
#include "tasks/worker_task.h"
#include "tests/fuzz/byte_source.h"
#include "tests/simulation/scenario.h"

namespace millrace::fuzz {

// The simulator's, but small: many runs find more than long ones.
simulation::Scenario DrawJob(uint64_t seed);

// Which records are changed on their way: those of one topic, so that what the other side does with
// them can be held against what an honest side must do.
enum class Hostile { kNothing, kRows, kGradients, kWeights };

enum class Transaction { kCommits, kAborts };

// Shards and workers of a small job, of a drawn configuration. Everything is decided by the input's
// bytes. Breaks a MILLRACE_CHECK when an invariant does not hold.
class FuzzJob {
 public:
  FuzzJob(ByteSource& bytes, Hostile hostile);

  // Until the bytes are used up, or nothing happens any more.
  void Run();
  // Leaves up to `most` bytes, which the caller reads: at the end of a run none would be left.
  ByteSource RunWithoutSome(size_t most);

  // What holds at the end, whatever came:
  // each shard's state is the fold of its log, from its beginning and from its last checkpoint.
  void CheckFolds();
  // No weight is other than finite.
  void CheckWeights() const;
  // What honest workers send is never refused.
  void CheckNothingRefused();

  const simulation::Scenario& scenario() const { return scenario_; }
  size_t shards() const { return shards_.size(); }
  ShardTask& task(ShardId shard) { return *shards_[shard].task; }
  const ServerOptions& options(ShardId shard) const { return options_[shard]; }
  Status SaveShard(ShardId id, Transaction transaction = Transaction::kCommits);
  // The records of its partition of `parameters`, in their order; none is compacted away.
  const std::vector<Checkpoint::Entry>& parameters(ShardId shard) const {
    return shards_[shard].parameters;
  }
  // What its checkpoints have written; the records after them stay in the log.
  MemoryByteMap& store(ShardId shard) { return *shards_[shard].store; }
  // A new task on the store, which has folded the log from the store's position on.
  StatusOr<std::unique_ptr<ShardTask>> Recover(ShardId id, MemoryByteMap& store) const;

 private:
  struct Record {
    std::string key;
    std::string value;
  };
  struct Shard {
    std::unique_ptr<MemoryByteMap> store = std::make_unique<MemoryByteMap>();
    std::unique_ptr<ShardTask> task{};
    std::unique_ptr<ShardFeed> feed{};  // of the task
    std::vector<Checkpoint::Entry> parameters{};
    Offset log_begin = 0;
    std::vector<Record> log{};     // of `gradients`, from log_begin on
    std::deque<Record> pending{};  // sent, and not in the log yet

    Offset log_end() const { return log_begin + log.size(); }
  };
  struct Worker {
    std::unique_ptr<WorkerTask> task{};      // null: it has stopped with an error
    std::unique_ptr<TrainerTask> trainer{};  // instead, of a job with trainers of one's own
    bool is_there() const { return task != nullptr || trainer != nullptr; }
    std::deque<Record> pending{};  // of its partition of `weights`
    std::deque<Record> shared{};   // of the shared one, which it reads as a process of its own
    std::unique_ptr<SharedWeightsReader> reader{};
    RowNumber next_row = 0;
    Offset next_record = 0;
    Offset next_weights = 0;
  };

  bool Turn();
  // What a program or an operator does, rather than a record.
  void Disturb(size_t what);
  // The shard's disk and its log are lost; it goes on from what the workers have.
  void LoseShard(ShardId id);
  void StartWorker(WorkerId id);
  void MakeTask(WorkerId id);
  bool MakeStep(WorkerId id);
  bool Fold(ShardId id);
  bool GiveWeights(WorkerId id);
  bool GiveShared(WorkerId id);
  bool GiveRow(WorkerId id);
  void Advance(WorkerId id);
  void Send(std::vector<OutgoingRecord>& out);
  // As a server takes records, but that a snapshot is whole at once.
  static Status Take(ShardFeed& feed, const Record& record, Offset offset, const RecordSink& out);

  ByteSource& bytes_;
  Hostile hostile_;
  simulation::Scenario scenario_;
  std::unique_ptr<Model> model_;
  std::vector<ServerOptions> options_;
  std::vector<Shard> shards_;
  std::vector<Worker> workers_;
  uint64_t attempts_ = 0;
};

// Writes a checkpoint of the task to the store, or one whose transaction is aborted. Errors are the
// store's: it holds what is none of a shard's. `parameters`: null, or gets what is committed.
Status Save(ShardTask& task, MemoryByteMap& store, Transaction transaction = Transaction::kCommits,
            std::vector<Checkpoint::Entry>* parameters = nullptr);

}  // namespace millrace::fuzz
