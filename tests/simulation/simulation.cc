#include "tests/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"
#include "tasks/checkpoint.h"
#include "topics/frame.h"
#include "topics/replica_placement.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostTurns = 400'000;  // for each shard
constexpr int kIdleTurns = 30;
constexpr int kMostRepeats = 30;

}  // namespace

Factory Factory::Production() {
  Factory factory;
  factory.server = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<ServerHost>(world, shard, std::move(disk));
  };
  factory.worker = [](World& world, std::shared_ptr<Disk> disk) -> std::unique_ptr<WorkerProcess> {
    if (world.scenario.external()) return std::make_unique<TrainerHost>(world);
    return std::make_unique<WorkerHost>(world, std::move(disk));
  };
  factory.replica = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<ReplicaHost>(world, shard, std::move(disk));
  };
  factory.image = [](World& world, ShardId shard, uint64_t seed) {
    return std::make_unique<ImageHost>(world, shard, seed);
  };
  return factory;
}

Simulation::Simulation(const Scenario& scenario, const Faults& faults, const Factory& factory,
                       uint64_t seed, std::map<WorkerId, GoingTrainer> going)
    : faults_(faults),
      factory_(factory),
      world_(scenario, seed),
      inspector_(world_),
      desk_(world_),
      server_disks_(scenario.shards),
      given_(scenario.shards),
      server_(scenario.shards),
      owner_(scenario.workers),
      next_row_(scenario.workers),
      now_ms_(scenario.workers, 1'000'000) {
  world_.observer = &inspector_;
  world_.going = std::move(going);
  world_.faults = faults.turns > 0;
  world_.disk_errors = faults.disk_errors;
  if (scenario.external()) {  // no rows are produced
    for (WorkerId worker = 0; worker < scenario.workers; ++worker) {
      next_row_[worker] = scenario.rows[worker] + 1;
    }
  }
  const uint64_t processes = world_.random.Between(1, scenario.workers);
  for (uint64_t i = 0; i < processes; ++i) StartWorkerProcess(AnyDisk(worker_disks_));
  for (WorkerId worker = 0; worker < scenario.workers; ++worker) Give(worker, AnyProcess());
  for (ShardId server = 0; server < scenario.shards; ++server) {
    for (ShardId shard : ReplicatedBy({server}, scenario.shards, scenario.replicas)) {
      replicas_.push_back({shard, std::make_shared<Disk>(), nullptr});
    }
    followers_.push_back(factory_.image(world_, server, seed));
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
    if (faults_.reshards && world_.random.Chance(0.02)) OrderShards();
    if (inspector_.AllSealed() && TakeSealed()) return inspector_.violation();
    if (Turn()) {
      idle = 0;
      continue;
    }
    if (world_.faults || ++idle < kIdleTurns) continue;
    idle = 0;
    if (Sweep() || inspector_.failed()) continue;
    if (Done()) {
      bool did = false;
      // (One that has just stopped by itself is started again.)
      for (ServerHost* server : server_) did |= server == nullptr || server->StepCheckpoint();
      if (did) continue;
      return Finish();
    }
    if (inspector_.AllSealed()) {  // each saves that
      for (ServerHost* server : server_) {
        if (server != nullptr && server->alive()) server->StepCheckpoint();
      }
      continue;
    }
    if (GiveUpSnapshots()) continue;
    if (world_.scenario.resizes() && desk_.EndNow()) continue;
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
  if (world_.scenario.resizes() && world_.random.Chance(0.3)) did |= TurnDesk();
  for (const auto& follower : followers_) follower->Turn();
  if (world_.random.Chance(faults_.produce)) did |= Produce();
  return did;
}

bool Simulation::TurnServer(ServerHost& server) {
  bool did = false;
  if (server.alive() && server.ZombieIsOver()) server.Die();
  server.MayTimeOut();
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

bool Simulation::TurnWorker(WorkerProcess& process) {
  bool did = false;
  if (process.alive() && process.ZombieIsOver()) process.Die();
  if (process.alive()) {
    if (world_.random.Chance(0.6)) did |= process.Step();
    // It is long: what was said before has been delivered. (At last rarely, as by a timer whose
    // time doubles: else small frames would be said again faster than they are read.)
    const double repeats = world_.faults ? 0.01 : 0.001;
    if (faults_.timer && process.sender().empty() && world_.random.Chance(repeats)) {
      process.RepeatAll();
    }
    if (world_.random.Chance(0.05)) process.CommitAll();
    if (world_.random.Chance(0.03)) process.SaveAll();
    for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
      if (world_.scenario.resizes() && owner_[worker] == &process && !process.Has(worker) &&
          !world_.plan[worker].empty()) {
        process.Assign(worker);
        did = true;
      }
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

void Simulation::AppendInput(WorkerId worker, const InputKey& key, std::string value) {
  world_.Append(
      {Topic::kInputData, static_cast<int32_t>(worker), EncodeInputKey(key), std::move(value)},
      now_ms_[worker]);
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
  const int records = world_.scenario.rows[worker] < 100 ? 1 : 20;
  for (int i = 0; i < records && next <= world_.scenario.rows[worker]; ++i) {
    now_ms_[worker] +=
        static_cast<int64_t>(world_.random.Chance(0.02) ? 60'000 : world_.random.Below(200));
    if (world_.scenario.IsFlushed(worker, next)) {
      world_.Count("flush");
      AppendInput(worker, {next, 0}, EncodeFlush(next));
    }
    const uint64_t left = world_.scenario.rows[worker] - next;
    const uint64_t most = world_.random.Chance(0.5) ? 1 : world_.random.Between(1, 6);
    InputKey key = {next, static_cast<uint32_t>(std::min(most, left))};
    for (uint32_t row = 1; row < key.count; ++row) {
      const bool ends = world_.scenario.IsFlushed(worker, next + row) ||
                        world_.scenario.IsLeaseEnd(worker, next + row);
      if (ends) key.count = row;
    }
    if (key.count > 1) world_.Count("record of several rows");
    if (key.count > 1 && IsDamaged(world_.scenario, worker, key)) {
      world_.Count("record of several rows that cannot be read");
    }
    AppendInput(worker, key, InputValue(world_.scenario, worker, key));
    next = key.end() + (key.has_rows() ? 0 : 1);
  }
  return true;
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
  // After a transaction's last record stands its marker.
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

WorkerProcess& Simulation::StartWorkerProcess(std::shared_ptr<Disk> disk) {
  processes_.push_back(factory_.worker(world_, std::move(disk)));
  return *processes_.back();
}

WorkerProcess& Simulation::AnyProcess() {
  std::vector<WorkerProcess*> able;
  for (const auto& process : processes_) {
    if (process->alive() && !process->zombie()) able.push_back(process.get());
  }
  return *able[world_.random.Below(able.size())];
}

void Simulation::Give(WorkerId worker, WorkerProcess& to) {
  WorkerProcess* from = owner_[worker];
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
  // The last that goes wrong: nothing else brings back what these had.
  while (world_.scenario.direct && world_.random.Chance(0.8) &&
         world_.pipes.BreakOne(world_.random)) {
    world_.Count("pipe of answers that broke at the end of all faults");
  }
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
  if (world_.scenario.resizes()) {
    did |= TurnDesk();
    for (const auto& process : processes_) did |= process->alive() && process->FollowPlan();
  }
  return Produce() || did;
}

bool Simulation::TurnDesk() {
  // Of what is in the log.
  const ServerHost* const server = server_[0];
  if (server != nullptr && server->alive() && server->live() && world_.random.Chance(0.5)) {
    desk_.Look(server->task().processor());
  }
  std::optional<Gradient> order;
  const bool did = desk_.Turn(next_row_, order);
  if (order) SendRequest(ShardId(0), *std::move(order));
  return did;
}

Presence Simulation::presence() const {
  Presence presence;
  for (const Referee::Accepted& accepted : referee(ShardId(0)).accepted()) {
    Presence::mapped_type& round = presence[Clock(accepted.clock)];
    round.workers.insert(WorkerId(accepted.worker));
    round.told = std::max(round.told, accepted.message.workers());
  }
  return presence;
}

bool Simulation::Done() const {
  if (world_.scenario.resizes() && !desk_.is_over()) return false;
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    if (world_.scenario.resizes() && world_.plan[worker].empty()) continue;
    if (!owner_[worker]->Has(worker) || !owner_[worker]->left(worker)) return false;
  }
  return inspector_.AllLeft();
}

void Simulation::OrderShards() {
  if (inspector_.AllSealed() || (world_.faults && !world_.random.Chance(0.3))) return;
  Gradient order;
  order.mutable_reshard()->set_shards(NextShards(world_.scenario));
  SendRequest(ShardId(0), std::move(order));
}

bool Simulation::TakeSealed() {
  const bool all_have = std::ranges::all_of(server_, [](const ServerHost* server) {
    return server != nullptr && server->alive() && !server->zombie() && server->live() &&
           server->task().processor().seal().is_sealed() && server->task().saved() &&
           !server->checkpoint_under_way();
  });
  if (!all_have || !world_.random.Chance(0.1)) return false;
  const bool have_read_all = std::ranges::all_of(server_, [this](const ServerHost* server) {
    return server->task().position() == inspector_.referee(server->shard()).end();
  });
  if (!have_read_all) return false;
  world_.Count("job whose shards are sealed");
  world_.faults = false;  // of disks, while we look
  for (const ServerHost* server : server_)
    inspector_.OnSealed(server->task(), server->disk()->map->Clone());
  return true;
}

std::map<WorkerId, GoingTrainer> Simulation::TakeTrainers() {
  std::map<WorkerId, GoingTrainer> going;
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    std::optional<GoingTrainer> trainer = owner_[worker]->TakeTrainer(worker);
    if (trainer) going.emplace(worker, *std::move(trainer));
  }
  return going;
}

std::string Simulation::Standstill() const {
  std::string text = "it hangs:";
  for (ShardId shard = 0; shard < server_.size(); ++shard) {
    const Referee::State& state = inspector_.referee(shard).now();
    if (!state.lost) continue;
    text += " shard " + std::to_string(shard) + " is lost, and has heard of";
    for (const auto& [worker, report] : *state.reports) {
      text += " " + std::to_string(worker) + " {" + report.ShortDebugString() + "}";
    }
    text += ";";
  }
  for (WorkerId worker = 0; worker < owner_.size(); ++worker) {
    text += " worker " + std::to_string(worker) + " at clock";
    for (ShardId shard = 0; shard < server_.size(); ++shard) {
      const Referee::Member& member = inspector_.referee(shard).now().members[worker];
      text += " " + std::to_string(member.clock) +
              (member.left            ? " (left)"
               : !member.held.empty() ? " (held)"
                                      : "");
    }
    if (!owner_[worker]->Has(worker)) {
      text += " has no task;";
      continue;
    }
    text += owner_[worker]->Describe(worker);
  }
  return text;
}

std::string Simulation::Finish() {
  for (const ServerHost* server : server_) inspector_.CheckEnd(server->task());
  inspector_.CheckEnd();
  CheckReplicas();
  CheckFollowers();
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

// Each shows the end by now, or will when it begins again.
void Simulation::CheckFollowers() {
  for (ShardId shard = 0; shard < followers_.size(); ++shard) {
    ImageHost& follower = *followers_[shard];
    const auto shows_the_end = [&] {
      return follower.view().position == inspector_.referee(shard).end();
    };
    follower.TakeAll();
    for (int i = 0; i < 30 && !shows_the_end(); ++i) {
      follower.BeginAgain();
      follower.TakeAll();
    }
    if (!shows_the_end()) inspector_.Fail("a follower does not come to the end");
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

}  // namespace millrace::simulation
