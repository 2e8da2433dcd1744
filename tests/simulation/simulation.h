// One job under faults: one thread, one seed, one loop of events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/image_host.h"
#include "tests/simulation/inspector.h"
#include "tests/simulation/reference_loop.h"
#include "tests/simulation/replica_host.h"
#include "tests/simulation/resize_desk.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/server_host.h"
#include "tests/simulation/trainer_host.h"
#include "tests/simulation/worker_host.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// What may go wrong, and how often.
struct Faults {
  uint64_t turns = 0;         // with faults; then they end, and everything must come to rest
  double rate = 0;            // of faults, per turn
  double duplicates = 0;      // of a delivered record being delivered once more
  double checkpoints = 0.05;  // per turn
  double produce = 0.2;       // rows, per turn
  bool compaction = false;
  bool failed_deliveries = false;
  // The repeat timer. Off, the protocol has to get by without: then nothing may be lost that only
  // the timer brings back (answers by retention, chunks by strangers).
  bool timer = true;
  bool retention = false;  // of weights
  bool strangers = false;  // records by others, and poison
  double snapshots = 0;    // asked for, per turn
  bool workers = true;     // die and move
  bool losses = false;     // of records of a shard that its servers must not get over: a run's end
  double disk_errors = 0;  // of a server's writes to its disk
  bool clock_jumps = false;  // of the brokers, and of whoever dates the rows
  bool reshards = false;     // the job goes over to another number of shards
  bool continues = false;    // another job starts from the newest snapshot of this one
  bool lost_copies = false;  // of a shard, all of them (Scenario::weights_from_workers)
  std::string ToString() const;
};

Faults DrawFaults(Random& random);
// Shards of which no copy is left, and servers that go on with what the workers have.
void DrawLostCopies(Scenario& scenario, Faults& faults);
// A job whose workers come, leave and come again while it runs.
void DrawResizes(Scenario& scenario, Faults& faults);
// A job of trainers of one's own, which another may go on from, or which goes over to other shards.
void DrawTrainers(Scenario& scenario, Faults& faults);
// Another job, on another number of shards, starts from the newest snapshot.
void DrawContinuation(Faults& faults);
// Another number of shards than the scenario has, 1 to 4.
uint32_t NextShards(const Scenario& scenario);
// The job goes over to them, and they go on in another simulation.
void DrawReshard(Scenario& scenario, Faults& faults);

// Makes the processes; a planted error makes others.
struct Factory {
  std::function<std::unique_ptr<ServerHost>(World&, ShardId, std::shared_ptr<Disk>)> server;
  std::function<std::unique_ptr<WorkerProcess>(World&, std::shared_ptr<Disk>)> worker;
  std::function<std::unique_ptr<ReplicaHost>(World&, ShardId, std::shared_ptr<Disk>)> replica;
  std::function<std::unique_ptr<ImageHost>(World&, ShardId, uint64_t seed)> image;
  static Factory Production();
};

class Simulation {
 public:
  // `going`: trainers that come from other shards, in the middle of their steps.
  Simulation(const Scenario& scenario, const Faults& faults, const Factory& factory, uint64_t seed,
             std::map<WorkerId, GoingTrainer> going = {});

  // Until everything has come to rest, or something has gone wrong: then says what.
  std::string Run();

  // After Run. It has ended since a shard's records were lost, and its servers refuse to go on.
  bool refused() const { return world_.loss.has_value() || world_.input_loss.has_value(); }
  // A shard's state was lost, so it did not end as any other run does.
  bool lost_state() const { return inspector_.AnyLost(); }
  const Referee& referee(ShardId shard) const { return inspector_.referee(shard); }
  // Who trained in each round, and how many workers the job was said to have.
  Presence presence() const;
  const SnapshotAudit& snapshots() const { return inspector_.snapshots(); }
  std::shared_ptr<StoredSnapshot> NewestSnapshot() const { return inspector_.NewestSnapshot(); }
  // What the job's next shards begin from; null: it has ended with those that it had.
  std::shared_ptr<StoredSnapshot> Sealed() const { return inspector_.Sealed(); }
  // Trainers that go over to the next shards in the middle of their steps. It outlives them.
  std::map<WorkerId, GoingTrainer> TakeTrainers();
  // Somebody has written updates in the name of workers, maybe after the last of them.
  bool forged() const { return world_.forged; }
  // Each worker has had one task, which has computed all that was accepted: so it has still what it
  // kept back.
  bool workers_lived() const {
    return world_.next_attempt == 1 + world_.scenario.workers && !world_.forged;
  }
  // Of all shards, and after them the embedding rows by id. REQUIRES: Run has come to its end.
  std::vector<float> weights() const;
  const std::map<std::string_view, uint64_t>& coverage() const { return world_.coverage; }

 private:
  // Of a shard, kept by some follower. The host is null while that process is down.
  struct Replica {
    ShardId shard = 0;
    std::shared_ptr<Disk> disk;
    std::unique_ptr<ReplicaHost> host;
  };

  bool Turn();
  bool TurnServer(ServerHost& server);
  bool TurnWorker(WorkerProcess& process);
  bool Deliver(Host& host);
  void AppendInput(WorkerId worker, const InputKey& key, std::string value);
  bool Produce();
  void Fault();
  void FaultOfServer();
  void FaultOfWorker();
  // Its partitions go to others, or to a new process.
  void Succeed(const WorkerProcess& process);
  void FaultOfReplica();
  void Rebalance();
  void Retention();
  void JumpClock();
  // False when nothing can be lost that must be noticed.
  bool LoseRecords(ShardId shard);
  bool LoseGradients(ShardId shard);
  bool LoseUnderServer(ShardId shard);
  bool RecreateParameters(ShardId shard);
  // All copies of the shard; its servers are to go on from what the workers have.
  bool LoseCopies(ShardId shard);
  void KillServers(ShardId shard);
  // Of the newest checkpoint; 0: there is none.
  Offset SavedPosition(ShardId shard) const;
  // `input-data` of a worker that has read some of it, with other rows.
  bool RecreateInput(WorkerId worker);
  std::string AwaitRefusalOfWorker();
  // Until the shard's server has said that it cannot go on; or says why it has not.
  std::string AwaitRefusal();
  void Stranger();
  // `message` is an update of the worker's present clock on the shard.
  void ForgeLeft(ShardId shard, WorkerId worker);
  void HostileStranger(ShardId shard, Gradient message);
  void ForgeCount(WorkerId worker);
  // Sends shard 0 what somebody does who wants a snapshot, or gives one up.
  void AskForSnapshot();
  void RequestSnapshot(uint64_t number);
  void CancelSnapshot(ShardId shard, uint64_t id);
  // Tells all shards, or one.
  void CutHere(uint64_t id);
  void CutHere(ShardId shard, uint64_t id);
  void SendRequest(ShardId shard, Gradient request);
  // As a master does it, again and again.
  void OrderShards();
  // All shards are sealed. Takes what others begin from; false when some server has not read and
  // saved all yet.
  bool TakeSealed();
  // Shards that have waited for long at a cut to which not all come; false: there are none.
  bool GiveUpSnapshots();
  void Poison(OutgoingRecord& record);
  void PoisonRow(Gradient::Update& message);
  void PoisonPart(Gradient::Update& message);
  void SpoilRows(ShardId shard, Gradient::Update& message);

  void EndFaults();
  // Does what is left to do; false when nothing is.
  bool Sweep();
  // What the master of a job whose workers change does.
  bool TurnDesk();
  bool Done() const;
  std::string Finish();
  // What everybody waits for, when nobody has anything to do.
  std::string Standstill() const;

  void StartServer(ShardId shard);
  WorkerProcess& StartWorkerProcess(std::shared_ptr<Disk> disk);
  // One of the folders, or an empty one.
  std::shared_ptr<Disk> AnyDisk(std::vector<std::shared_ptr<Disk>>& disks);
  // What a server starts from whose disk is lost: a replica, as some follower gives it, or nothing.
  std::shared_ptr<Disk> NewDisk(ShardId shard);
  bool TurnReplica(Replica& replica);
  void CheckReplicas();
  void CheckFollowers();
  // Gives the partition to a process, whoever had it.
  void Give(WorkerId worker, WorkerProcess& to);
  WorkerProcess& AnyProcess();
  void Bury();

  // Has nothing to say, since what it would compare with is gone.
  Observer nobody_;
  Faults faults_;
  Factory factory_;
  World world_;
  Inspector inspector_;
  ResizeDesk desk_;  // of a job whose workers change

  std::vector<std::vector<std::shared_ptr<Disk>>> server_disks_;  // by shard
  std::vector<std::shared_ptr<Disk>> worker_disks_;
  std::vector<Replica> replicas_;
  std::vector<std::unique_ptr<ImageHost>> followers_;  // by shard
  std::vector<std::shared_ptr<Disk>> given_;  // by shard: a copy that was under way for long
  uint64_t cut_at_rest_ = 0;                  // a snapshot to whose cut nobody came any more
  uint64_t last_snapshot_ = 0;                // that was asked for
  int64_t log_ms_ = 0;                        // time of the last record delivered
  std::vector<std::unique_ptr<ServerHost>> servers_;
  std::vector<std::unique_ptr<WorkerProcess>> processes_;
  std::vector<ServerHost*> server_;    // by shard: the present one; null while it is down
  std::vector<WorkerProcess*> owner_;  // by worker
  std::vector<RowNumber> next_row_;    // of the producer, by worker
  std::vector<int64_t> now_ms_;        // by worker
};

// Draws a job and its faults from the seed, runs it, and compares its end with that of training in
// one process, and of the same job without faults.
struct Outcome {
  std::string violation;  // empty: none
  std::string options;    // everything that was drawn
  std::map<std::string_view, uint64_t> coverage;
};
Outcome RunSeed(uint64_t seed);
// The same with planted errors; `adjust` changes what was drawn, so that the error can show.
Outcome RunSeed(uint64_t seed, const Factory& factory,
                const std::function<void(Scenario&, Faults&)>& adjust);

}  // namespace millrace::simulation
