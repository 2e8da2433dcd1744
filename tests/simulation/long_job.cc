#include "tests/simulation/long_job.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "tests/simulation/reference_loop.h"
#include "tests/simulation/server_host.h"
#include "tests/simulation/worker_host.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kReports = 20;
constexpr uint64_t kRowsAhead = 64;       // of a worker's reader
constexpr uint64_t kTurnsToCommit = 200;  // what timers do
constexpr uint64_t kTurnsToCompact = 20'000;
constexpr uint64_t kIdleTurns = 1'000;

Scenario LongScenario(const LongJobOptions& options) {
  Scenario scenario;
  scenario.workers = 2;
  scenario.shards = 2;
  scenario.rows.assign(scenario.workers, RowNumber(uint64_t{options.rounds}));
  scenario.training.set_batch_rows(1);
  scenario.training.mutable_optimizer()->set_learning_rate(0.01);
  scenario.training.mutable_consistency()->set_model(options.consistency);
  return scenario;
}

class LongJob {
 public:
  explicit LongJob(const LongJobOptions& options)
      : options_(options), world_(LongScenario(options), 1), next_row_(world_.scenario.workers) {
    for (ShardId shard = 0; shard < world_.scenario.shards; ++shard) {
      server_disks_.push_back(std::make_shared<Disk>());
      servers_.push_back(std::make_unique<ServerHost>(world_, shard, server_disks_.back()));
    }
    for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
      processes_.push_back(std::make_unique<WorkerHost>(world_, std::make_shared<Disk>()));
      processes_.back()->Assign(worker);
    }
  }

  std::string Run(const std::function<void(const Kept&)>& report) {
    uint64_t idle = 0;
    for (uint64_t turn = 1; !Ended(); ++turn) {
      world_.now += std::chrono::milliseconds(1);
      idle = Turn() ? 0 : idle + 1;
      if (idle == kIdleTurns) return "it does not end: round " + std::to_string(Rounds());
      if (turn % kTurnsToCommit == 0 || idle > 0) RunTimers();
      if (turn % kTurnsToCompact == 0) Compact();
      if (turn % kTurnsToCommit == 0) most_ = most_.Max(Now());
      Kill();
      if (Rounds() < (reports_ + 1) * uint64_t{options_.rounds} / kReports) continue;
      ++reports_;
      report(std::exchange(most_, Now()));
    }
    return Check();
  }

 private:
  const ServerProcessor& processor(size_t shard) const {
    return servers_[shard]->task().processor();
  }
  bool IsLive(size_t shard) const { return servers_[shard]->live(); }
  bool Ended() const {
    for (size_t shard = 0; shard < servers_.size(); ++shard) {
      if (!IsLive(shard) || !processor(shard).AllLeft()) return false;
    }
    return true;
  }
  uint64_t Rounds() {
    if (IsLive(0)) {
      uint64_t least = uint64_t{options_.rounds};
      for (const auto& [worker, entry] : processor(0).clocks().entries()) {
        least = std::min(least, uint64_t{entry.clock});
      }
      rounds_ = std::max(rounds_, least);
    }
    return rounds_;
  }

  bool Turn() {
    bool did = Produce();
    for (const auto& server : servers_) did |= Move(*server);
    for (const auto& process : processes_) did |= Move(*process);
    return did;
  }
  bool Move(Host& host) {
    bool did = host.Step();
    for (; !host.sender().empty(); did = true) {
      world_.Append(host.sender().Front(world_.random));
      host.sender().PopFront();
    }
    return did;
  }
  bool Produce() {
    bool did = false;
    for (WorkerId worker = 0; worker < next_row_.size(); ++worker) {
      RowNumber& next = next_row_[worker];
      const uint64_t read(processes_[worker]->next_row(worker));
      for (; next <= world_.scenario.rows[worker] && next < read + kRowsAhead; ++next, did = true) {
        const InputKey key = {next, next < world_.scenario.rows[worker] ? 1U : 0U};
        world_.Append({Topic::kInputData, static_cast<int32_t>(worker), EncodeInputKey(key),
                       InputValue(world_.scenario, worker, key)},
                      static_cast<int64_t>(1000 + uint64_t{next}));
      }
    }
    return did;
  }

  void RunTimers() {
    for (const auto& process : processes_) {
      process->RepeatAll();
      process->CommitAll();
      process->SaveAll();
    }
    for (const auto& server : servers_) {
      while (server->StepCheckpoint()) {
      }
    }
    // What all workers read none of them deletes: the broker does.
    constexpr int64_t kSharedKept = 1000;
    const auto shared = SharedWeightsPartition(static_cast<uint32_t>(processes_.size()));
    const Offset end = world_.log.End(Topic::kWeights, shared);
    if (end > kSharedKept) world_.log.DeleteBefore(Topic::kWeights, shared, end - kSharedKept);
  }
  void Compact() {
    parameters_ = 0;
    for (int32_t shard = 0; shard < static_cast<int32_t>(servers_.size()); ++shard) {
      world_.log.Compact(Topic::kParameters, shard, world_.log.End(Topic::kParameters, shard));
      parameters_ += world_.log.Committed(Topic::kParameters, shard, 0).size();
    }
  }

  void Kill() {
    if (killed_ == options_.kills) return;
    if (Rounds() < (killed_ + 1) * uint64_t{options_.rounds} / (options_.kills + 1)) return;
    const bool is_server = killed_++ % 2 == 0;
    const size_t which = killed_ / 2 % 2;
    if (is_server) {
      servers_[which]->Die();
      servers_[which] = std::make_unique<ServerHost>(world_, ShardId(which), server_disks_[which]);
    } else {
      const std::shared_ptr<Disk> disk = processes_[which]->disk();
      processes_[which]->Die();
      processes_[which] = std::make_unique<WorkerHost>(world_, disk);
      processes_[which]->Assign(WorkerId(which));
    }
  }

  Kept Now() {
    Kept kept;
    kept.rounds = Clock(Rounds());
    const auto records = [this](Topic topic, size_t partitions) {
      size_t count = 0;
      for (int32_t i = 0; i < static_cast<int32_t>(partitions); ++i) {
        count += static_cast<size_t>(world_.log.End(topic, i) - world_.log.Begin(topic, i));
      }
      return count;
    };
    kept.gradients = records(Topic::kGradients, servers_.size());
    kept.weights = records(Topic::kWeights, processes_.size() + 1);
    kept.input_data = records(Topic::kInputData, processes_.size());
    kept.parameters = parameters_;
    for (size_t shard = 0; shard < servers_.size(); ++shard) {
      if (!IsLive(shard)) continue;
      ShardState state;
      processor(shard).SaveState(state);
      kept.state_bytes += state.ByteSizeLong();
    }
    return kept;
  }

  std::string Check() const {
    const uint64_t rows = processor(0).rows_trained();
    const uint64_t wanted = uint64_t{options_.rounds} * world_.scenario.workers;
    if (rows != wanted) {
      return std::to_string(rows) + " rows are counted of " + std::to_string(wanted);
    }
    if (!world_.scenario.sequential()) return "";
    std::vector<float> weights;
    for (size_t shard = 0; shard < servers_.size(); ++shard) {
      const std::span<const float> part = processor(shard).shard().weights();
      weights.insert(weights.end(), part.begin(), part.end());
    }
    const std::vector<float> trained = TrainInOneProcess(world_.scenario, {}).end;
    const bool same =
        weights.size() == trained.size() &&
        std::memcmp(weights.data(), trained.data(), weights.size() * sizeof(float)) == 0;
    return same ? "" : "the weights are not those of training in one process";
  }

  const LongJobOptions options_;
  World world_;
  std::vector<RowNumber> next_row_;
  std::vector<std::shared_ptr<Disk>> server_disks_;
  std::vector<std::unique_ptr<ServerHost>> servers_;    // by shard
  std::vector<std::unique_ptr<WorkerHost>> processes_;  // by worker
  uint64_t rounds_ = 0;
  uint64_t reports_ = 0;
  uint64_t killed_ = 0;
  size_t parameters_ = 0;  // records, when they were last compacted
  Kept most_;
};

}  // namespace

Kept Kept::Max(const Kept& other) const {
  return {std::max(rounds, other.rounds),         std::max(gradients, other.gradients),
          std::max(weights, other.weights),       std::max(input_data, other.input_data),
          std::max(parameters, other.parameters), std::max(state_bytes, other.state_bytes)};
}

std::string RunLongJob(const LongJobOptions& options,
                       const std::function<void(const Kept&)>& report) {
  return LongJob(options).Run(report);
}

}  // namespace millrace::simulation
