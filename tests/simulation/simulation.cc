#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/big_endian.h"
#include "tasks/checkpoint.h"
#include "tests/simulation/reference_loop.h"
#include "tests/simulation/stored_snapshot.h"
#include "topics/frame.h"
#include "topics/packed_floats.h"
#include "topics/replica_placement.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostTurns = 400'000;  // for each shard
constexpr int kIdleTurns = 30;
constexpr int kMostRepeats = 8;

}  // namespace

std::string Faults::ToString() const {
  return "turns with faults " + std::to_string(turns) + ", fault rate " + std::to_string(rate) +
         ", duplicates " + std::to_string(duplicates) + ", checkpoints " +
         std::to_string(checkpoints) + ", produce " + std::to_string(produce) + ", compaction " +
         std::to_string(compaction) + ", timer " + std::to_string(timer) + ", retention " +
         std::to_string(retention) + ", strangers " + std::to_string(strangers) +
         ", failed deliveries " + std::to_string(failed_deliveries) + ", snapshots " +
         std::to_string(snapshots) + ", workers die " + std::to_string(workers) + ", clock jumps " +
         std::to_string(clock_jumps) + ", losses " + std::to_string(losses) + ", disk errors " +
         std::to_string(disk_errors) + ", continues " + std::to_string(continues) +
         ", lost copies " + std::to_string(lost_copies);
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

Factory Factory::Production() {
  Factory factory;
  factory.server = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<ServerHost>(world, shard, std::move(disk));
  };
  factory.worker = [](World& world, std::shared_ptr<Disk> disk) {
    return std::make_unique<WorkerHost>(world, std::move(disk));
  };
  factory.replica = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<ReplicaHost>(world, shard, std::move(disk));
  };
  return factory;
}

Simulation::Simulation(const Scenario& scenario, const Faults& faults, const Factory& factory,
                       uint64_t seed)
    : faults_(faults),
      factory_(factory),
      world_(scenario, seed),
      inspector_(world_),
      server_disks_(scenario.shards),
      given_(scenario.shards),
      server_(scenario.shards),
      owner_(scenario.workers),
      next_row_(scenario.workers),
      now_ms_(scenario.workers, 1'000'000) {
  world_.observer = &inspector_;
  world_.faults = faults.turns > 0;
  world_.disk_errors = faults.disk_errors;
  const uint64_t processes = world_.random.Between(1, scenario.workers);
  for (uint64_t i = 0; i < processes; ++i) StartWorkerProcess(AnyDisk(worker_disks_));
  for (WorkerId worker = 0; worker < scenario.workers; ++worker) Give(worker, AnyProcess());
  for (ShardId server = 0; server < scenario.shards; ++server) {
    for (ShardId shard : ReplicatedBy({server}, scenario.shards, scenario.replicas)) {
      replicas_.push_back({shard, std::make_shared<Disk>(), nullptr});
    }
  }
}

std::string Simulation::Run() {
  int idle = 0;
  int repeats = 0;
  for (uint64_t turn = 0; !inspector_.failed(); ++turn) {
    world_.now += std::chrono::milliseconds(1);
    if (turn == kMostTurns * server_.size()) return "it never comes to rest";
    if (world_.faults && turn >= faults_.turns) EndFaults();
    if (world_.faults && world_.random.Chance(faults_.rate)) Fault();
    if (world_.loss) return AwaitRefusal();
    if (world_.input_loss) return AwaitRefusalOfWorker();
    if (world_.faults && world_.random.Chance(faults_.snapshots)) AskForSnapshot();
    if (Turn()) {
      idle = 0;
      continue;
    }
    if (world_.faults || ++idle < kIdleTurns) continue;
    idle = 0;
    if (Sweep() || inspector_.failed()) continue;
    if (Done()) {
      bool did = false;
      for (ServerHost* server : server_) did |= server->StepCheckpoint();
      if (did) continue;
      return Finish();
    }
    if (GiveUpSnapshots()) continue;
    if (inspector_.AnyBeyondHelp()) {
      world_.Count("lost shard of which nobody has weights");
      return inspector_.violation();
    }
    if (!faults_.timer || ++repeats > kMostRepeats) return Standstill();
    for (const auto& process : processes_) process->RepeatAll();
  }
  return inspector_.violation();
}

bool Simulation::Turn() {
  Bury();
  bool did = false;
  for (ShardId shard = 0; shard < server_.size(); ++shard) {
    if (server_[shard] != nullptr || (world_.faults && !world_.random.Chance(0.2))) continue;
    StartServer(shard);
    did = true;
  }
  const size_t drawn = world_.random.Below(servers_.size() + processes_.size());
  if (drawn < servers_.size()) {
    did |= TurnServer(*servers_[drawn]);
  } else {
    did |= TurnWorker(*processes_[drawn - servers_.size()]);
  }
  if (!replicas_.empty() && world_.random.Chance(0.3)) {
    did |= TurnReplica(replicas_[world_.random.Below(replicas_.size())]);
  }
  if (world_.random.Chance(faults_.produce)) did |= Produce();
  return did;
}

bool Simulation::TurnServer(ServerHost& server) {
  bool did = false;
  if (server.alive() && server.ZombieIsOver()) server.Die();
  if (server.alive() && world_.random.Chance(0.6)) did |= server.Step();
  // (At a cut, a step may have been one of the checkpoint, in which the process has died.)
  if (server.alive() && !server.must_stop() &&
      (world_.random.Chance(faults_.checkpoints) ||
       (server.checkpoint_under_way() && world_.random.Chance(0.2)))) {
    did |= server.StepCheckpoint();
  }
  if (server.alive() && server.must_stop()) {
    world_.Count("server stopped by itself");
    server.Die();
  }
  if (!server.alive() && &server == server_[server.shard()]) server_[server.shard()] = nullptr;
  return Deliver(server) || did;
}

bool Simulation::TurnWorker(WorkerHost& process) {
  bool did = false;
  if (process.alive() && process.ZombieIsOver()) process.Die();
  if (process.alive()) {
    if (world_.random.Chance(0.6)) did |= process.Step();
    // It is long: what was said before has been delivered.
    if (faults_.timer && process.sender().empty() && world_.random.Chance(0.01)) {
      process.RepeatAll();
    }
    if (world_.random.Chance(0.05)) process.CommitAll();
    if (world_.random.Chance(0.03)) process.SaveAll();
    for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
      // Whoever has lost a partition gets to know it at last.
      if (owner_[worker] != &process && process.Has(worker) && !process.zombie() &&
          world_.random.Chance(world_.faults ? 0.02 : 0.2)) {
        process.Revoke(worker, true);
        did = true;
      }
    }
    if (process.must_stop()) {
      process.Die();
      Succeed(process);
      did = true;
    }
  }
  return Deliver(process) || did;
}

bool Simulation::Deliver(Host& host) {
  if (host.sender().empty()) return false;
  const bool slow = world_.faults && (host.zombie() || !host.alive());
  if (!world_.random.Chance(slow ? 0.05 : 0.6)) return true;
  OutgoingRecord& record = host.sender().Front(world_.random);
  if (record.topic == Topic::kGradients && faults_.strangers) Poison(record);
  if (!host.alive()) world_.Count("delivered after the sender's death");
  if (host.alive() && host.zombie()) world_.Count("delivered by a zombie");
  if (faults_.failed_deliveries && host.alive() &&
      world_.Fault("delivery that failed for good", 0.005)) {
    // The broker may have it all the same.
    if (world_.random.Chance(0.3)) world_.Append(record);
    host.sender().PopFront();
    host.DeliveryFailed();
    return true;
  }
  world_.Append(record, log_ms_ += 3);
  if (!world_.Fault("duplicated record", faults_.duplicates)) host.sender().PopFront();
  return true;
}

// A bit flips in a worker's memory.
void Simulation::Poison(OutgoingRecord& record) {
  const double often = world_.scenario.ids > 0 ? 0.03 : 0.01;  // such jobs are fewer
  if (record.value.size() < 2 || record.value[1] != 0 || !world_.Fault("poison", often)) return;
  Gradient gradient;
  if (!gradient.ParseFromString(record.value.substr(2)) || !gradient.has_update()) return;
  Gradient::Update& message = *gradient.mutable_update();
  const bool has_rows =
      !message.packed_embeddings().empty() || message.embeddings().value_size() > 0;
  if (has_rows && world_.random.Chance(0.5)) {
    PoisonRow(message);
    record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
    return;
  }
  if (!message.packed_slice().empty()) {
    message.mutable_packed_slice()->replace(0, 2, "\xff\x7f");  // NaN, in both formats of 16 bits
    record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
    return;
  }
  Slice& slice = *message.mutable_slice();
  const float poison = world_.random.Chance(0.5) ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
  if (slice.dense_size() > 0) {
    slice.set_dense(static_cast<int>(world_.random.Below(slice.dense_size())), poison);
  } else if (slice.sparse_value_size() > 0) {
    slice.set_sparse_value(0, poison);
  } else {
    message.set_weight_sum(std::numeric_limits<double>::quiet_NaN());
  }
  record.value = MakeFrames(gradient.SerializeAsString(), 0).front();
}

void Simulation::PoisonRow(Gradient::Update& message) {
  world_.Count("poison in an embedding row");
  if (!message.packed_embeddings().empty()) {
    message.mutable_packed_embeddings()->replace(0, 2, "\xff\x7f");
    return;
  }
  EmbeddingBlock& rows = *message.mutable_embeddings();
  const float poison = world_.random.Chance(0.5) ? std::numeric_limits<float>::quiet_NaN()
                                                 : -std::numeric_limits<float>::infinity();
  rows.set_value(static_cast<int>(world_.random.Below(rows.value_size())), poison);
}

// Of another shard, or not as wide as a row is; the rest of the update is well.
void Simulation::SpoilRows(ShardId shard, Gradient::Update& message) {
  message.set_row_count(1);
  message.set_weight_sum(1);
  const Referee::Job& job = inspector_.referee(shard).job();
  message.mutable_slice()->set_begin(job.begin);
  message.mutable_slice()->set_end(job.begin + job.keys);
  const std::vector<EmbeddingId> ids = AllIds(world_.scenario);
  const EmbeddingId id = ids[world_.random.Below(ids.size())];
  EmbeddingBlock& rows = *message.mutable_embeddings();
  rows.add_id(id);
  rows.mutable_value()->Resize(static_cast<int>(job.row_width), 1.0f);
  if (!job.born_rows.contains(id)) {
    world_.Count("stranger: an embedding row of another shard");
  } else {
    world_.Count("stranger: an embedding row of another width");
    rows.mutable_value()->Truncate(static_cast<int>(world_.random.Below(job.row_width)));
  }
  const FloatFormat format = world_.scenario.training.compression().values();
  PackUpdate(format, 0, message);
}

bool Simulation::Produce() {
  std::vector<WorkerId> open;
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    if (next_row_[worker] <= world_.scenario.rows[worker]) open.push_back(worker);
  }
  if (open.empty()) return false;
  const WorkerId worker = open[world_.random.Below(open.size())];
  RowNumber& next = next_row_[worker];
  if (next > 0 && world_.Fault("producer starts again behind", 0.03)) {
    next -= std::min<uint64_t>(next, world_.random.Between(1, 3));
  }
  const int batch = world_.scenario.rows[worker] < 100 ? 1 : 20;
  for (int i = 0; i < batch && next <= world_.scenario.rows[worker]; ++i, ++next) {
    now_ms_[worker] +=
        static_cast<int64_t>(world_.random.Chance(0.02) ? 60'000 : world_.random.Below(200));
    world_.Append({Topic::kInputData, static_cast<int32_t>(worker), EncodeBigEndian64(next),
                   InputValue(world_.scenario, worker, next)},
                  now_ms_[worker]);
  }
  return true;
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
  WorkerHost& process = AnyProcess();
  if (world_.random.Chance(0.5)) {
    world_.Count("worker process killed");
    process.Die();
  } else {
    world_.Count("worker process becomes a zombie");
    process.MakeZombie(world_.random.Between(5, 150));
  }
  Succeed(process);
}

void Simulation::Succeed(const WorkerHost& process) {
  const bool others = std::any_of(processes_.begin(), processes_.end(),
                                  [](const auto& p) { return p->alive() && !p->zombie(); });
  WorkerHost* fresh = nullptr;
  if (!others || world_.random.Chance(0.6)) fresh = &StartWorkerProcess(AnyDisk(worker_disks_));
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    if (owner_[worker] != &process) continue;
    Give(worker, fresh != nullptr && world_.random.Chance(0.8) ? *fresh : AnyProcess());
  }
}

void Simulation::Rebalance() {
  const auto worker = static_cast<WorkerId>(world_.random.Below(owner_.size()));
  WorkerHost& to =
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
  const auto partition = static_cast<int32_t>(world_.random.Below(owner_.size()));
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

// Records by somebody who should not write here.
void Simulation::Stranger() {
  const auto worker = static_cast<WorkerId>(world_.random.Below(owner_.size()));
  const std::string key = EncodeBigEndian32(worker);
  const auto partition = static_cast<int32_t>(worker);
  Gradient message;
  message.set_epoch(kEpoch);
  message.set_worker(worker);
  Gradient::Update& update = *message.mutable_update();
  const auto shard = static_cast<ShardId>(world_.random.Below(server_.size()));
  const Referee::Member& member = inspector_.referee(shard).now().members[worker];
  message.set_clock(member.clock);
  update.set_rows_end(member.rows_end);
  update.set_buffer_rows(member.buffer_rows);
  const auto gradient = [&](const std::string& from, const std::string& value) {
    world_.Append({Topic::kGradients, static_cast<int32_t>(shard), from, value});
  };
  if (world_.random.Chance(0.3)) return HostileStranger(shard, std::move(message));
  switch (world_.random.Below(9)) {
    case 0:
      world_.Count("stranger: bytes in gradients");
      return gradient(key, world_.random.Chance(0.5) ? "" : "\x02\x07garbage");
    case 1:
      world_.Count("stranger: a key of nobody");
      return gradient("nobody", MakeFrames(message.SerializeAsString(), 0).front());
    case 2:
      world_.Count("stranger: another epoch");
      message.set_epoch(kEpoch - 1);
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    case 3:
      if (world_.scenario.ids > 0 && world_.random.Chance(0.7)) {
        SpoilRows(shard, update);
        return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
      }
      world_.Count("stranger: another shape");
      update.set_row_count(1);
      update.set_weight_sum(1);
      update.mutable_slice()->set_end(3);
      update.mutable_slice()->add_dense(1);
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    case 4: {
      // Who forges updates of a worker's present clock again and again gets any shard anywhere.
      for (ShardId other = 0; other < server_.size(); ++other) {
        if (inspector_.referee(other).now().members[worker].clock < member.clock) return;
      }
      world_.Count("stranger: poison");
      update.set_weight_sum(std::numeric_limits<double>::infinity());
      world_.forged = true;
      return gradient(key, MakeFrames(message.SerializeAsString(), 0).front());
    }
    case 5: {
      if (!faults_.timer) return;
      world_.Count("stranger: a chunk that is never finished");
      const std::string body(100, 'x');
      return gradient(key, MakeFrames(body, world_.random.Next(), 60).front());
    }
    case 6:
      world_.Count("stranger: a key of no row");
      return world_.Append({Topic::kInputData, partition, "nobody", "?"}, now_ms_[worker]);
    case 7:
      world_.Count("stranger: bytes in weights");
      return world_.Append({Topic::kWeights, partition, EncodeBigEndian32(0), "?"});
    default: {
      world_.Count("stranger: weights of another epoch");
      Weights weights;
      weights.set_epoch(kEpoch + 1);
      weights.set_clock(1000);
      weights.set_released(true);
      return world_.Append({Topic::kWeights, partition, EncodeBigEndian32(0),
                            MakeFrames(weights.SerializeAsString(), 0).front()});
    }
  }
}

// What a worker, a server or somebody who wants a snapshot may say, but at another time.
void Simulation::HostileStranger(ShardId shard, Gradient message) {
  const WorkerId worker(message.worker());
  const Clock clock(message.clock());
  const auto send = [&] {
    world_.Append({Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(worker),
                   MakeFrames(message.SerializeAsString(), 0).front()});
  };
  switch (world_.random.Below(6)) {
    case 0:
      world_.Count("stranger: an update of a clock to come");
      message.set_clock(clock + world_.random.Between(1, 3));
      return send();
    case 1:
      if (clock == 0) return;
      world_.Count("stranger: another update of a clock that is over");
      message.set_clock(clock - 1);
      message.mutable_update()->set_rows_end(1'000'000);
      return send();
    case 2:
      world_.Count("stranger: a leave of another clock");
      message.mutable_leave();
      message.set_clock(clock + world_.random.Between(1, 3));
      return send();
    case 3:
      world_.Count("stranger: weights for a shard that has lost none");
      message.mutable_restore()->set_left(world_.random.Chance(0.5));
      return send();
    case 4:
      world_.Count("stranger: a snapshot to come is given up");
      return CancelSnapshot(shard, last_snapshot_ + world_.random.Between(1, 3));
    default: {
      world_.Count("stranger: weights of another shape");
      Weights weights;
      weights.set_epoch(kEpoch);
      weights.set_shard(shard);
      weights.set_clock(clock);
      weights.set_released(true);
      const Referee::Job& job = inspector_.referee(shard).job();
      weights.mutable_slice()->set_begin(job.begin);
      weights.mutable_slice()->set_end(job.begin + job.keys);
      weights.mutable_slice()->mutable_dense()->Resize(static_cast<int>(job.keys) + 1, 1.0f);
      return world_.Append({Topic::kWeights, static_cast<int32_t>(worker), EncodeBigEndian32(shard),
                            MakeFrames(weights.SerializeAsString(), 0).front()});
    }
  }
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
  world_.Count("snapshot asked for");
  if (!world_.random.Chance(0.1)) ++last_snapshot_;  // or the same once more
  RequestSnapshot(last_snapshot_);
}

bool Simulation::GiveUpSnapshots() {
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

void Simulation::SendRequest(ShardId shard, Gradient request) {
  request.set_epoch(kEpoch);
  request.set_worker(kNoWorker);
  world_.Append({Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(kNoWorker),
                 MakeFrames(request.SerializeAsString(), 0).front()});
}

std::shared_ptr<Disk> Simulation::AnyDisk(std::vector<std::shared_ptr<Disk>>& disks) {
  std::vector<std::shared_ptr<Disk>> free;
  for (const std::shared_ptr<Disk>& disk : disks) {
    if (!disk->in_use) free.push_back(disk);
  }
  if (free.empty() || (world_.faults && world_.random.Chance(0.25))) {
    world_.Count("a disk with nothing on it");
    return disks.emplace_back(std::make_shared<Disk>());
  }
  return free[world_.random.Below(free.size())];
}

std::shared_ptr<Disk> Simulation::NewDisk(ShardId shard) {
  std::vector<Replica*> kept;
  for (Replica& replica : replicas_) {
    // Nobody offers what no whole checkpoint has come to.
    if (replica.shard == shard &&
        ReadParametersOffset(*replica.disk->map).value_or(Offset(0)) > 0) {
      kept.push_back(&replica);
    }
  }
  if (!world_.faults || world_.random.Chance(0.3)) return std::make_shared<Disk>();
  if (given_[shard] != nullptr && world_.random.Chance(0.5)) {
    world_.Count("server starts from an old copy of a replica");
    return std::exchange(given_[shard], nullptr);
  }
  if (kept.empty()) return std::make_shared<Disk>();
  Replica& from = *kept[world_.random.Below(kept.size())];
  std::shared_ptr<Disk> copy;
  if (from.host != nullptr) {
    world_.Count("server starts from a replica");
    copy = from.host->Copy();
  } else if (world_.random.Chance(0.5)) {
    world_.Count("server starts from a dead follower's replica");
    copy = ReplicaHost::CopyOf(*from.disk);
  } else {
    world_.Count("server starts on the disk of a follower");
    copy = std::exchange(from.disk, std::make_shared<Disk>());
  }
  if (copy->whole) {
    world_.observer->OnCopy(shard, *copy->map);
  } else {
    world_.Count("copy in the middle of a checkpoint");
  }
  const Offset end = world_.log.StableEnd(Topic::kParameters, static_cast<int32_t>(shard));
  // Behind a transaction's last record stands its marker.
  if (ReadParametersOffset(*copy->map).value_or(Offset(0)) + 1 < end)
    world_.Count("copy that is behind");
  return copy;
}

void Simulation::StartServer(ShardId shard) {
  std::shared_ptr<Disk> disk = AnyDisk(server_disks_[shard]);
  if (ReadParametersOffset(*disk->map).value_or(Offset(0)) == 0) *disk = std::move(*NewDisk(shard));
  servers_.push_back(factory_.server(world_, shard, std::move(disk)));
  server_[shard] = servers_.back().get();
}

bool Simulation::TurnReplica(Replica& replica) {
  if (replica.host != nullptr && !replica.host->alive()) replica.host.reset();
  if (replica.host == nullptr) {
    if (world_.faults && !world_.random.Chance(0.02)) return false;
    replica.host = factory_.replica(world_, replica.shard, replica.disk);
  }
  return (!world_.faults || replica.host->awake()) && replica.host->Step();
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

WorkerHost& Simulation::StartWorkerProcess(std::shared_ptr<Disk> disk) {
  processes_.push_back(factory_.worker(world_, std::move(disk)));
  return *processes_.back();
}

WorkerHost& Simulation::AnyProcess() {
  std::vector<WorkerHost*> able;
  for (const auto& process : processes_) {
    if (process->alive() && !process->zombie()) able.push_back(process.get());
  }
  return *able[world_.random.Below(able.size())];
}

void Simulation::Give(WorkerId worker, WorkerHost& to) {
  WorkerHost* from = owner_[worker];
  if (from != nullptr && from != &to) from->Lose(worker);
  if (to.Has(worker)) to.Revoke(worker, true);
  owner_[worker] = &to;
  to.Assign(worker);
}

void Simulation::Bury() {
  const auto gone = [](const auto& host) { return !host->alive() && host->sender().empty(); };
  std::erase_if(servers_, gone);
  std::erase_if(processes_, gone);
}

void Simulation::EndFaults() {
  world_.faults = false;
  for (const auto& server : servers_) server->ShortenZombie(40);
  for (const auto& process : processes_) process->ShortenZombie(40);
}

bool Simulation::Sweep() {
  bool did = false;
  for (const auto& server : servers_) {
    if (server->zombie() && server->alive()) {
      server->Die();
      did = true;
    }
    while (!server->sender().empty()) did |= Deliver(*server);
    if (server->alive()) did |= server->Step();
  }
  for (const auto& process : processes_) {
    if (process->zombie() && process->alive()) {
      process->Die();
      did = true;
    }
    while (!process->sender().empty()) did |= Deliver(*process);
    if (process->alive()) did |= process->Step();
  }
  for (Replica& replica : replicas_) did |= TurnReplica(replica);
  return Produce() || did;
}

bool Simulation::Done() const {
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    if (!owner_[worker]->Has(worker) || !owner_[worker]->task(worker).left()) return false;
  }
  return inspector_.AllLeft();
}

std::string Simulation::Standstill() const {
  std::string text = "it hangs:";
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    text += " worker " + std::to_string(worker) + " at clock";
    for (ShardId shard = 0; shard < server_.size(); ++shard) {
      const Referee::Member& member = inspector_.referee(shard).now().members[worker];
      text += " " + std::to_string(member.clock) +
              (member.left              ? " (left)"
               : member.held != nullptr ? " (held)"
                                        : "");
    }
    if (!owner_[worker]->Has(worker)) {
      text += " has no task;";
      continue;
    }
    const WorkerTask& task = owner_[worker]->task(worker);
    text += ", its task at " + std::to_string(task.clock()) +
            (task.owes_update() ? " owes an update" : "") + (task.ended() ? ", has read all" : "") +
            ", holds " + std::to_string(task.buffered_rows()) + ", " +
            (task.WantsRows() ? "wants rows;" : "wants no rows;");
  }
  return text;
}

std::string Simulation::Finish() {
  for (const ServerHost* server : server_) inspector_.CheckEnd(server->task());
  inspector_.CheckEnd();
  CheckReplicas();
  return inspector_.violation();
}

// Each has all by now, and a server that has nothing else gets by with it.
void Simulation::CheckReplicas() {
  for (Replica& replica : replicas_) {
    while (TurnReplica(replica)) {
    }
    const std::shared_ptr<Disk> copy = replica.host->Copy();
    inspector_.OnCopy(replica.shard, *copy->map);
    inspector_.CheckRecovery(server_[replica.shard]->task(), *copy->map);
  }
}

std::vector<float> Simulation::weights() const {
  std::vector<float> all;
  for (ShardId shard = 0; shard < server_.size(); ++shard) {
    const std::vector<float>& part = *referee(shard).now().weights;
    all.insert(all.end(), part.begin(), part.end());
  }
  std::map<EmbeddingId, std::vector<float>> rows;
  for (const ServerHost* server : server_) {
    rows.merge(EmbeddingRowsOf(world_.scenario, server->task()));
  }
  for (const auto& [id, values] : rows) all.insert(all.end(), values.begin(), values.end());
  return all;
}

namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

SkippedUpdates PoisonedUpdates(const Simulation& simulation, uint32_t shards) {
  SkippedUpdates updates(shards);
  for (ShardId shard = 0; shard < shards; ++shard) {
    for (const Referee::Accepted& accepted : simulation.referee(shard).accepted()) {
      if (accepted.poisoned) updates[shard].insert({accepted.worker, accepted.clock});
    }
  }
  return updates;
}

bool AnyPoisoned(const Simulation& simulation, uint32_t shards) {
  return std::ranges::any_of(PoisonedUpdates(simulation, shards),
                             [](const auto& of_shard) { return !of_shard.empty(); });
}

// Empty, or how the run differs from training in one process.
std::string Compare(const Scenario& scenario, const Simulation& simulation, Outcome& outcome) {
  const SnapshotAudit& snapshots = simulation.snapshots();
  ++outcome.coverage["compared with training in one process"];
  const Trained trained =
      TrainInOneProcess(scenario, PoisonedUpdates(simulation, scenario.shards), snapshots.Rounds());
  if (!SameBits(simulation.weights(), trained.end)) {
    return "the weights are not those of training in one process";
  }
  if (!trained.after.empty()) ++outcome.coverage["snapshots compared with training in one process"];
  return snapshots.Check(scenario, trained.after);
}

void Run(Simulation& simulation, Outcome& outcome) {
  outcome.violation = simulation.Run();
  for (const auto& [what, count] : simulation.coverage()) outcome.coverage[what] += count;
}

// Another job starts from the run's newest snapshot, if it has one, and ends in the same bytes.
void Continue(const Scenario& scenario, const Simulation& before, const Factory& factory,
              Random& random, Outcome& outcome) {
  const std::shared_ptr<StoredSnapshot> snapshot = before.NewestSnapshot();
  if (snapshot == nullptr) return;
  const bool is_new = random.Chance(0.2);
  snapshot->start = is_new ? SnapshotStart::kNewStream : SnapshotStart::kSameStream;
  Scenario next = scenario;
  next.start = snapshot;
  next.shards = static_cast<uint32_t>(random.Between(1, 4));
  next.replicas = next.shards > 1 ? static_cast<uint32_t>(random.Below(3)) : 0;
  if (next.shards != scenario.shards) ++outcome.coverage["another number of shards continues"];
  Faults faults = DrawFaults(random);
  if (next.max_frame_bytes < kMaxFrameBytes) faults.timer = true;
  faults.losses = false;
  faults.strangers = false;
  Simulation simulation(next, faults, factory, random.Next());
  Run(simulation, outcome);
  const bool comparable = scenario.sequential() && scenario.one_pass() && scenario.repeatable();
  if (outcome.violation.empty() && comparable && !is_new && !AnyPoisoned(before, scenario.shards)) {
    ++outcome.coverage["continued job compared with training in one process"];
    outcome.violation = Compare(next, simulation, outcome);
  }
  if (outcome.violation.empty()) return;
  outcome.violation = "a job that starts from a snapshot: " + outcome.violation;
  outcome.options += "; then " + next.ToString() + "; " + faults.ToString();
}

}  // namespace

void DrawContinuation(Faults& faults) {
  faults.continues = true;
  faults.snapshots = 0.02;
}

void DrawLostCopies(Scenario& scenario, Faults& faults) {
  scenario.weights_from_workers = true;
  faults.lost_copies = true;
  faults.losses = false;     // a shard without `parameters` refuses nothing then
  faults.snapshots = 0;      // shard 0 forgets which it has made
  faults.strangers = false;  // whose reports would be believed
  faults.timer = true;       // what a shard reads while it is lost, it wants to be told again
}

Outcome RunSeed(uint64_t seed) {
  Random rare(Random::Hash(seed, 0, 0, 0));  // of its own: a planted error draws its own, too
  return RunSeed(seed, Factory::Production(), [&rare](Scenario& scenario, Faults& faults) {
    if (rare.Chance(0.08)) return DrawLostCopies(scenario, faults);
    if (rare.Chance(0.1)) DrawContinuation(faults);
  });
}

Outcome RunSeed(uint64_t seed, const Factory& factory,
                const std::function<void(Scenario&, Faults&)>& adjust) {
  Random random(seed);
  Scenario scenario = DrawScenario(random);
  Faults faults = DrawFaults(random);
  // Chunks that two senders interleave may be forgotten, until the timer sends them again.
  if (scenario.max_frame_bytes < kMaxFrameBytes) faults.timer = true;
  if (!scenario.repeatable()) faults.workers = random.Chance(0.3);
  adjust(scenario, faults);
  Outcome outcome;
  outcome.options = scenario.ToString() + "; " + faults.ToString();
  Simulation simulation(scenario, faults, factory, random.Next());
  Run(simulation, outcome);
  if (simulation.refused() || simulation.lost_state() || !outcome.violation.empty()) return outcome;
  const bool compares = scenario.sequential() && scenario.one_pass() &&
                        (scenario.repeatable() || simulation.workers_lived());
  if (compares) {
    if (!scenario.repeatable()) ++outcome.coverage["largest part of updates sent, and compared"];
    outcome.violation = Compare(scenario, simulation, outcome);
  }
  if (faults.continues && outcome.violation.empty()) {
    Continue(scenario, simulation, factory, random, outcome);
  }
  if (!compares || !outcome.violation.empty() || AnyPoisoned(simulation, scenario.shards)) {
    return outcome;
  }
  ++outcome.coverage["compared with a run without faults"];
  scenario.replicas = 0;
  Simulation calm(scenario, Faults(), Factory::Production(), random.Next());
  outcome.violation = calm.Run();
  if (outcome.violation.empty() && !SameBits(simulation.weights(), calm.weights())) {
    outcome.violation = "the weights are not those of a run without faults";
  }
  return outcome;
}

}  // namespace millrace::simulation
