// A whole job on the memory log, without faults, moved on by hand: for examples and regressions.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "messages/records.pb.h"
#include "tests/simulation/inspector.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/server_host.h"
#include "tests/simulation/worker_host.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

class TestedTopology {
 public:
  explicit TestedTopology(const Scenario& scenario);

  // The next rows of a partition; after the last row comes its end. ProduceAll: of all partitions.
  void Produce(WorkerId worker, RowNumber rows);
  void ProduceAll();

  using DiskPointer = std::shared_ptr<Disk>;
  // The present server; an older one goes on, but no longer counts.
  ServerHost& StartServer(DiskPointer disk = std::make_shared<Disk>());
  // A process, and the partitions that the group gives it.
  WorkerHost& StartWorkers(const std::vector<WorkerId>& workers,
                           DiskPointer disk = std::make_shared<Disk>());
  // Dies, and nothing of what it had not yet delivered arrives.
  static void Kill(Host& host);

  // All do what there is to do, and deliver what they have to say, until nobody has anything left.
  void RunUntilIdle();
  // All but this one's words are delivered.
  void HoldBack(Host& host) { held_back_ = &host; }
  void Release() { held_back_ = nullptr; }
  // The server makes a checkpoint.
  void Checkpoint();

  World& world() { return world_; }
  ServerHost& server() { return *server_; }
  const ServerProcessor& processor() const { return server_->task().processor(); }
  const Referee& referee() const { return inspector_.referee(0); }
  // The first invariant that was broken; empty: none.
  const std::string& violation() const { return inspector_.violation(); }
  // What stands in `gradients` of a worker, and in `weights`.
  std::vector<Gradient> GradientsOf(WorkerId worker) const;
  std::vector<Weights> WeightsOf(WorkerId worker) const;
  std::vector<DeadLetter> DeadLetters() const;
  // A record of `gradients`, by anybody.
  void AppendGradient(const Gradient& message);
  Clock clock(WorkerId worker) const { return processor().clocks().clock(worker); }

 private:
  World world_;
  Inspector inspector_;
  std::vector<std::unique_ptr<ServerHost>> servers_;
  std::vector<std::unique_ptr<WorkerHost>> processes_;
  ServerHost* server_ = nullptr;
  Host* held_back_ = nullptr;
  std::vector<RowNumber> next_row_;
};

// The shard's dense weights.
inline std::vector<float> WeightsNow(const TestedTopology& job) {
  const std::span<const float> weights = job.processor().shard().weights();
  return {weights.begin(), weights.end()};
}

}  // namespace millrace::simulation
