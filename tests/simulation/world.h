// What the hosts of tasks share: the log, the random source, the faults, and who watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/leases.pb.h"
#include "models/model.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_image.h"
#include "tasks/shard_task.h"
#include "tasks/trainer_task.h"
#include "tests/simulation/answer_pipes.h"
#include "tests/simulation/memory_log.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scenario.h"
#include "topics/outgoing_record.h"

namespace millrace::simulation {

// Is told of everything that can be judged.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnAppended(Topic, int32_t /*partition*/, const LogRecord&) {}
  virtual void OnFolded(const ShardTask&) {}
  // What a live server says after the record before its position; or to everybody.
  // To what has made them due at these positions of the shard.
  virtual void OnAnswers(const ShardTask&, std::span<const Offset>,
                         std::span<const OutgoingRecord>) {}
  virtual void OnAnnouncement(const ShardTask&, std::span<const OutgoingRecord>) {}
  virtual void OnSentByWorker(WorkerId, std::span<const OutgoingRecord>) {}
  virtual void OnCheckpointCommitted(ShardId) {}
  // The shard's disks are lost, and `parameters` has been recreated.
  virtual void OnCopiesLost(ShardId) {}
  // A server starts without any copy, and asks the workers.
  virtual void OnStateLost(const ShardTask&) {}
  // A copy of the shard that is on its way to no other checkpoint.
  virtual void OnCopy(ShardId, const OrderedByteMap&) {}
  // What a follower of the shard shows of it.
  virtual void OnImage(ShardId, const ShardImage::View&) {}
  // The shard writes its part of a snapshot: what it is, its store, which has all of it, and
  // whether nobody has taken it over.
  virtual void OnSnapshotPart(uint64_t /*id*/, const ShardTask&, const OrderedByteMap&,
                              bool /*is_newest*/) {}
  // What must never happen, in words.
  virtual void OnError(const std::string&) {}
};

// A folder on a machine: outlives the process that used it.
struct Disk {
  std::unique_ptr<MemoryByteMap> map = std::make_unique<MemoryByteMap>();
  bool in_use = false;
  // Of a copy of a shard: false when it may be on its way from one checkpoint to the next.
  bool whole = true;
};

// A shard's records were lost in a way that must not go unnoticed, and whether its servers say so:
// from then on they must refuse to serve, and nothing else is judged.
struct ShardLoss {
  ShardId shard = 0;
  bool refused = false;
  bool answered = false;
};

// `input-data` of a worker was recreated with other rows: the worker must not read on.
struct InputLoss {
  WorkerId worker = 0;
  bool refused = false;
};

// A trainer of one's own in the middle of its steps, on its way to other shards.
struct GoingTrainer {
  std::unique_ptr<TrainerTask> task;
  std::optional<Clock> offered{};  // the last clock of which it has made a step
  bool leaves = false;
};

struct World {
  World(const Scenario& job, uint64_t seed)
      : scenario(job),
        model(MakeModel(job)),
        log(job.workers, job.shards),
        random(seed),
        committed(job.workers),
        plan(job.workers),
        compacted(job.shards) {}

  Scenario scenario;
  std::unique_ptr<Model> model;
  MemoryLog log;
  Random random;
  Observer nobody;
  Observer* observer = &nobody;

  // The consumer group's commits, by partition of `input-data`.
  struct Commit {
    Offset offset = 0;
    std::string metadata;
  };
  std::vector<std::optional<Commit>> committed;
  // Of a job whose workers change: what the plan says of each; it may be a worker's first record,
  // or later ones. None: it has not joined yet.
  std::vector<std::vector<WorkerLeases>> plan;
  // Trainers that have come from other shards, and are not hosted yet.
  std::map<WorkerId, GoingTrainer> going;
  // Up to where each partition of `parameters` has been compacted.
  std::vector<Offset> compacted;
  uint64_t next_attempt = 1;
  // Of a job whose answers go straight.
  AnswerPipes pipes;
  uint64_t next_host = 1;

  std::optional<ShardLoss> loss;
  std::optional<InputLoss> input_loss;

  // Somebody has written updates in the name of workers, which know nothing of snapshots.
  bool forged = false;
  // Snapshots whose shards were told to cut where they are, at one moment or not.
  std::set<uint64_t> cut_here;
  // Of these and all older ones some shard may not hear where it is to cut. (Ids may be times.)
  uint64_t cut_here_up_to = 0;

  bool MayBeCutHere(uint64_t id) const { return id < cut_here_up_to || cut_here.contains(id); }

  // What a process would be told by its steady clock.
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};

  bool faults = false;
  double disk_errors = 0;                         // of a server's writes
  std::map<std::string_view, uint64_t> coverage;  // how often each thing happened

  void Count(std::string_view what) { ++coverage[what]; }
  // Whether a fault happens now; never while faults are off.
  bool Fault(std::string_view what, double probability) {
    if (!faults || !random.Chance(probability)) return false;
    Count(what);
    return true;
  }

  void Append(const OutgoingRecord& record, int64_t timestamp_ms = 0) {
    const Offset offset =
        log.Append(record.topic, record.partition, record.key, record.value, timestamp_ms);
    observer->OnAppended(record.topic, record.partition,
                         {offset, timestamp_ms, record.key, record.value});
  }
};

}  // namespace millrace::simulation
