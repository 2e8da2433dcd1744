// What goes wrong, and snapshots, which anybody requests at any time.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/big_endian.h"
#include "tests/simulation/simulation.h"
#include "topics/frame.h"

namespace millrace::simulation {

std::string Faults::ToString() const {
  return "turns with faults " + std::to_string(turns) + ", fault rate " + std::to_string(rate) +
         ", duplicates " + std::to_string(duplicates) + ", checkpoints " +
         std::to_string(checkpoints) + ", produce " + std::to_string(produce) + ", compaction " +
         std::to_string(compaction) + ", timer " + std::to_string(timer) + ", retention " +
         std::to_string(retention) + ", strangers " + std::to_string(strangers) +
         ", failed deliveries " + std::to_string(failed_deliveries) + ", snapshots " +
         std::to_string(snapshots) + ", workers die " + std::to_string(workers) + ", clock jumps " +
         std::to_string(clock_jumps) + ", losses " + std::to_string(losses) + ", disk errors " +
         std::to_string(disk_errors) + ", continues " + std::to_string(continues) + ", reshards " +
         std::to_string(reshards) + ", lost copies " + std::to_string(lost_copies);
}

Faults DrawFaults(Random& random) {
  Faults faults;
  constexpr double kRates[] = {0.005, 0.01, 0.03};
  constexpr double kCheckpoints[] = {0.005, 0.02, 0.08, 0.2};
  constexpr double kProduce[] = {0.05, 0.2, 0.7};
  faults.turns = random.Between(200, 2500);
  faults.rate = kRates[random.Below(3)];
  faults.checkpoints = kCheckpoints[random.Below(4)];
  faults.produce = kProduce[random.Below(3)];
  faults.duplicates = random.Chance(0.5) ? 0.03 : 0;
  faults.compaction = random.Chance(0.8);
  faults.timer = random.Chance(0.6);
  faults.retention = faults.timer && random.Chance(0.6);
  faults.strangers = random.Chance(0.4);
  faults.failed_deliveries = random.Chance(0.4);
  if (random.Chance(0.5)) faults.snapshots = random.Chance(0.5) ? 0.02 : 0.005;
  faults.clock_jumps = random.Chance(0.3);
  faults.losses = random.Chance(0.06);
  faults.disk_errors = random.Chance(0.7) ? 0.005 : 0.03;
  return faults;
}

void Simulation::Fault() {
  if (!replicas_.empty() && world_.random.Chance(0.15)) return FaultOfReplica();
  if (faults_.losses && world_.random.Chance(0.2)) {
    if (world_.random.Chance(0.4)
            ? RecreateInput(static_cast<WorkerId>(world_.random.Below(owner_.size())))
            : LoseRecords(static_cast<ShardId>(world_.random.Below(server_.size())))) {
      return;
    }
  }
  if (faults_.lost_copies && world_.random.Chance(0.05)) {
    if (LoseCopies(static_cast<ShardId>(world_.random.Below(server_.size())))) return;
  }
  if (faults_.clock_jumps && world_.random.Chance(0.15)) return JumpClock();
  if (world_.scenario.direct && world_.random.Chance(0.3) && world_.pipes.BreakOne(world_.random)) {
    return;
  }
  const double kind = world_.random.Uniform();
  if (kind < 0.27) return FaultOfServer();
  if (kind < 0.65 && !faults_.workers) return;
  if (kind < 0.45) return FaultOfWorker();
  if (kind < 0.65) return Rebalance();
  if (kind < 0.85) return Retention();
  if (faults_.strangers) Stranger();
}

void Simulation::FaultOfServer() {
  const auto shard = static_cast<ShardId>(world_.random.Below(server_.size()));
  ServerHost* const server = std::exchange(server_[shard], nullptr);
  if (server == nullptr) return;
  if (world_.random.Chance(0.5)) {
    world_.Count(server->live() ? "server killed" : "server killed while it recovers");
    if (server->checkpoint_under_way()) world_.Count("server killed within a checkpoint");
    if (server->at_cut()) world_.Count("server killed at a cut");
    server->Die();
  } else {
    world_.Count("server becomes a zombie");
    server->MakeZombie(world_.random.Between(5, 150));
    server->set_replaced();
  }
  if (world_.random.Chance(0.5)) StartServer(shard);
}

void Simulation::FaultOfWorker() {
  WorkerProcess& process = AnyProcess();
  if (world_.random.Chance(0.5)) {
    world_.Count("worker process killed");
    process.Die();
  } else {
    world_.Count("worker process becomes a zombie");
    process.MakeZombie(world_.random.Between(5, 150));
  }
  Succeed(process);
}

void Simulation::Succeed(const WorkerProcess& process) {
  const bool others = std::any_of(processes_.begin(), processes_.end(),
                                  [](const auto& p) { return p->alive() && !p->zombie(); });
  WorkerProcess* fresh = nullptr;
  if (!others || world_.random.Chance(0.6)) fresh = &StartWorkerProcess(AnyDisk(worker_disks_));
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    if (owner_[worker] != &process) continue;
    Give(worker, fresh != nullptr && world_.random.Chance(0.8) ? *fresh : AnyProcess());
  }
}

void Simulation::Rebalance() {
  const auto worker = static_cast<WorkerId>(world_.random.Below(owner_.size()));
  WorkerProcess& to =
      world_.random.Chance(0.4) ? StartWorkerProcess(AnyDisk(worker_disks_)) : AnyProcess();
  if (world_.random.Chance(0.5)) {
    world_.Count("partition handed over");
    owner_[worker]->Revoke(worker, false);
  } else {
    world_.Count("partition lost, its task goes on");
  }
  Give(worker, to);
}

void Simulation::Retention() {
  MemoryLog& log = world_.log;
  if (faults_.compaction && world_.random.Chance(0.6)) {
    const auto shard = static_cast<int32_t>(world_.random.Below(server_.size()));
    const Offset begin = log.Begin(Topic::kParameters, shard);
    const Offset end = log.StableEnd(Topic::kParameters, shard);
    const auto limit = begin + world_.random.Below(end - begin + 1);
    world_.coverage["record compacted away"] += log.Compact(Topic::kParameters, shard, limit);
    world_.compacted[shard] = std::max(world_.compacted[shard], limit);
    return;
  }
  if (!faults_.retention) return;
  const auto partition = static_cast<int32_t>(world_.random.Below(owner_.size() + 1));
  const Offset begin = log.Begin(Topic::kWeights, partition);
  const Offset end = log.End(Topic::kWeights, partition);
  log.DeleteBefore(Topic::kWeights, partition, begin + world_.random.Below(end - begin + 1));
  world_.Count("weights deleted by retention");
}

// Somebody sets a clock, forward or back; or it starts again at zero.
void Simulation::JumpClock() {
  constexpr int64_t kHour = 3'600'000;
  constexpr int64_t kJumps[] = {1000, -1000, 7 * kHour, -7 * kHour, 90'000 * kHour};
  const bool of_rows = world_.random.Chance(0.3);
  int64_t& clock = of_rows ? now_ms_[world_.random.Below(now_ms_.size())] : log_ms_;
  const uint64_t drawn = world_.random.Below(std::size(kJumps) + 1);
  const int64_t jump = drawn < std::size(kJumps) ? kJumps[drawn] : -clock;
  clock += jump;
  world_.Count(jump < 0 ? "clock jumps back" : "clock jumps forward");
}

void Simulation::FaultOfReplica() {
  Replica& replica = replicas_[world_.random.Below(replicas_.size())];
  if (replica.host == nullptr) return;
  if (world_.random.Chance(0.4)) {
    // It is on its way, and the server that gets it starts much later.
    given_[replica.shard] = replica.host->Copy();
    if (ReadParametersOffset(*given_[replica.shard]->map).value_or(Offset(0)) == 0) {
      given_[replica.shard] = nullptr;
    }
    return;
  }
  world_.Count("follower killed");
  replica.host->Die();
  replica.host.reset();
  if (!world_.random.Chance(0.15)) return;
  world_.Count("replica lost");
  replica.disk = std::make_shared<Disk>();
}

void Simulation::AskForSnapshot() {
  if (last_snapshot_ > 0 && world_.random.Chance(0.15)) {
    // A shard gives up what has been under way there for long; so may one that is to hear of it.
    const auto shard = static_cast<ShardId>(world_.random.Below(server_.size()));
    const bool open = inspector_.referee(shard).now().snapshot_open;
    world_.Count(open ? "snapshot given up on its way to the cut" : "snapshot given up");
    const ShardId known = world_.random.Chance(0.7) ? shard : ShardId(0);
    return CancelSnapshot(shard, inspector_.referee(known).now().snapshot);
  }
  if (last_snapshot_ > 0 && world_.random.Chance(0.2)) {
    const uint64_t known = inspector_.referee(ShardId(0)).now().snapshot;
    // Or one that waits.
    const uint64_t id = world_.random.Chance(0.5) ? known : last_snapshot_;
    if (world_.random.Chance(0.8)) return CutHere(id);
    world_.Count("one shard told to cut where it is");
    // Shard 0 may not tell the last cut any more to who comes to it in another shard.
    world_.cut_here_up_to = std::max(world_.cut_here_up_to, id);
    return CutHere(static_cast<ShardId>(world_.random.Below(server_.size())), id);
  }
  world_.Count("snapshot asked for");
  if (!world_.random.Chance(0.1)) ++last_snapshot_;  // or the same once more
  RequestSnapshot(last_snapshot_);
}

bool Simulation::GiveUpSnapshots() {
  const Referee::State& first = inspector_.referee(ShardId(0)).now();
  if (first.snapshot_open && first.snapshot != cut_at_rest_) {
    world_.Count("snapshot to whose cut not all come, cut where all are");
    cut_at_rest_ = first.snapshot;
    CutHere(first.snapshot);
    return true;
  }
  bool did = false;
  for (ShardId shard = 0; shard < server_.size(); ++shard) {
    const Referee::State& state = inspector_.referee(shard).now();
    if (!state.snapshot_open) continue;
    world_.Count("snapshot to whose cut not all come");
    CancelSnapshot(shard, state.snapshot);
    did = true;
  }
  return did;
}

void Simulation::RequestSnapshot(uint64_t number) {
  Gradient request;
  request.mutable_request_snapshot()->set_number(number);
  SendRequest(0, std::move(request));
}

void Simulation::CancelSnapshot(ShardId shard, uint64_t id) {
  Gradient request;
  request.mutable_cancel_snapshot()->set_snapshot(id);
  SendRequest(shard, std::move(request));
}

void Simulation::CutHere(uint64_t id) {
  for (ShardId shard = 0; shard < server_.size(); ++shard) CutHere(shard, id);
}

void Simulation::CutHere(ShardId shard, uint64_t id) {
  Gradient request;
  request.mutable_cut_here()->set_snapshot(id);
  world_.cut_here.insert(id);
  SendRequest(shard, std::move(request));
}

void Simulation::SendRequest(ShardId shard, Gradient request) {
  request.set_epoch(kEpoch);
  request.set_worker(kNoWorker);
  world_.Append({Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(kNoWorker),
                 MakeFrames(request.SerializeAsString(), 0).front()});
}

}  // namespace millrace::simulation
