#include "tests/simulation/group_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/shard_task.h"
#include "tasks/shared_weights_reader.h"
#include "tasks/task_options.h"
#include "tasks/trainer_task.h"
#include "tests/simulation/random.h"
#include "topics/parameter_layout.h"
#include "topics/server_groups.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostTurns = 60'000;  // after all faults have ended
constexpr uint32_t kCommonKeys = 3;
constexpr float kFirst = 5;  // of every number

struct Record {
  std::string key;
  std::string value;
};

// What the seed has drawn.
struct GroupJob {
  JobFeatures features;
  JobTraining training;
  std::vector<uint64_t> updates;  // of each worker
  size_t max_frame_bytes = kMaxFrameBytes;
  uint64_t turns_with_faults = 0;
  double fault_rate = 0;

  uint32_t workers() const { return features.workers(); }
  uint32_t groups() const { return static_cast<uint32_t>(training.group_size()); }
};

Training::Consistency DrawConsistency(Random& random) {
  Training::Consistency consistency;
  switch (random.Below(3)) {
    case 0:
      consistency.set_model(Training::Consistency::SEQUENTIAL);
      break;
    case 1:
      consistency.set_model(Training::Consistency::EVENTUAL);
      break;
    default:
      consistency.set_model(Training::Consistency::BOUNDED);
      consistency.set_max_delay(random.Between(1, 2));
  }
  return consistency;
}

void AddParameter(const std::string& name, uint64_t size, JobFeatures& features) {
  NamedParameter& parameter = *features.add_parameters();
  parameter.set_name(name);
  parameter.add_shape(size);
  parameter.set_handler("add");
  parameter.set_learning_rate_multiplier(1);
  parameter.set_decay_multiplier(1);
}

GroupJob Draw(Random& random) {
  GroupJob job;
  const auto groups = static_cast<uint32_t>(random.Between(2, 4));
  job.training.set_epoch(1);
  job.training.set_shards(groups * static_cast<uint32_t>(random.Between(1, 2)));
  job.training.mutable_training()->set_model(Training::EXTERNAL);
  *job.training.mutable_training()->mutable_consistency() = DrawConsistency(random);
  uint32_t worker = 0;
  for (uint32_t group = 0; group < groups; ++group) {
    ServerGroup& made = *job.training.add_group();
    if (group > 0) {
      made.set_neighbor(static_cast<uint32_t>(random.Below(group)));
      made.set_sync_interval(static_cast<uint32_t>(random.Between(1, 6)));
    }
    const uint64_t members = random.Between(1, 2);
    for (uint64_t i = 0; i < members; ++i) made.add_worker(worker++);
  }
  job.features.set_job("groups");
  job.features.set_epoch(1);
  job.features.set_workers(worker);
  AddParameter("of each trainer", worker, job.features);
  AddParameter("of all", kCommonKeys, job.features);
  for (uint32_t i = 0; i < worker; ++i) job.updates.push_back(random.Between(1, 9));
  if (random.Chance(0.5)) job.max_frame_bytes = random.Between(60, 200);
  job.turns_with_faults = random.Between(100, 2500);
  job.fault_rate = 0.02 + 0.15 * random.Uniform();
  MILLRACE_CHECK(CheckGroups(job.training, worker).ok());
  return job;
}

// What the worker's update of the clock adds to the number: no order of draws changes it.
float ChangeOf(WorkerId worker, Clock clock, uint64_t key) {
  return static_cast<float>(Random::Hash(worker, clock, key, 7) % 9) - 2;
}

TrainerStep StepOf(const GroupJob& job, WorkerId worker, Clock clock) {
  TrainerStep step;
  step.weight = 1;
  if (clock == 0) {
    step.put[0].assign(job.workers(), kFirst);
    step.put[1].assign(kCommonKeys, kFirst);
  }
  step.part[0].assign(job.workers(), 0);
  step.part[0][worker] = ChangeOf(worker, clock, 0);
  for (uint64_t key = 0; key < kCommonKeys; ++key) {
    step.part[1].push_back(ChangeOf(worker, clock, 1 + key));
  }
  return step;
}

// What all updates add up to, with the first values.
std::vector<int64_t> TotalOf(const GroupJob& job) {
  std::vector<int64_t> total(job.workers() + kCommonKeys, static_cast<int64_t>(kFirst));
  for (uint32_t worker = 0; worker < job.workers(); ++worker) {
    for (uint64_t clock = 0; clock < job.updates[worker]; ++clock) {
      const TrainerStep step = StepOf(job, WorkerId(worker), Clock(clock));
      for (uint32_t i = 0; i < job.workers(); ++i) {
        total[i] += static_cast<int64_t>(step.part.at(0)[i]);
      }
      for (uint32_t i = 0; i < kCommonKeys; ++i) {
        total[job.workers() + i] += static_cast<int64_t>(step.part.at(1)[i]);
      }
    }
  }
  return total;
}

class GroupWorld {
 public:
  GroupWorld(uint64_t seed, GroupError error)
      : random_(seed), error_(error), job_(Draw(random_)), total_(TotalOf(job_)) {
    model_ = MakeModel(job_.features, job_.training.training());
    for (uint32_t number = 0; number < job_.training.shards(); ++number) {
      Host& host = hosts_.emplace_back();
      host.options = MakeServerOptions(job_.features, job_.training, ShardId(number));
      host.options.max_frame_bytes = job_.max_frame_bytes;
    }
    weights_.resize(job_.workers() + job_.groups());
    for (uint32_t worker = 0; worker < job_.workers(); ++worker) {
      trainers_.emplace_back();
      BeginTrainer(WorkerId(worker));
    }
  }

  SeedOutcome Run() {
    for (uint64_t turn = 0; turn < job_.turns_with_faults && !failed(); ++turn) {
      if (random_.Chance(job_.fault_rate)) MakeFault();
      Turn();
    }
    for (Host& host : hosts_) {
      host.older.reset();
      host.away_turns = 0;
    }
    with_faults_ = false;
    for (uint64_t turn = 0; !failed() && !HasEnded(); ++turn) {
      if (turn == kMostTurns) Fail("the job does not end");
      Turn();
    }
    if (!failed()) CheckEnd();
    return std::move(outcome_);
  }

 private:
  // A running instance of a shard.
  struct Instance {
    std::unique_ptr<MemoryByteMap> store;
    std::unique_ptr<ShardTask> task;
    size_t next = 0;  // record of the log
    bool is_announced = false;
    std::optional<Checkpoint> writing{};
  };
  struct Host {
    ServerOptions options;
    std::vector<Record> log;   // its partition of `gradients`
    MemoryByteMap parameters;  // what its checkpoints have
    Offset written = 0;        // so many of them
    std::optional<Instance> now{};
    std::optional<Instance> older{};  // a zombie
    uint64_t away_turns = 0;
  };
  struct Trainer {
    std::unique_ptr<TrainerTask> task;
    std::unique_ptr<SharedWeightsReader> shared;
    size_t next = 0;  // record of its partition of `weights`
    size_t next_shared = 0;
    std::optional<Clock> offered;
  };

  bool failed() const { return !outcome_.violation.empty(); }
  void Fail(const std::string& what) {
    if (!failed()) outcome_.violation = what;
  }
  void FailUnless(const Status& status, const char* where) {
    if (!status.ok()) Fail(std::string(where) + ": " + status.ToString());
  }
  void Count(const char* what) { ++outcome_.coverage[what]; }

  // ---- shards ----

  Instance Begin(const Host& host, std::unique_ptr<MemoryByteMap> store) {
    Instance made;
    made.store = std::move(store);
    made.task = std::make_unique<ShardTask>(host.options, *made.store);
    FailUnless(made.task->Load(), "load");
    if (failed()) return made;
    FailUnless(made.task->StartReplay(0, Offset(host.log.size())), "replay");
    made.next = static_cast<size_t>(int64_t{made.task->gradients_position()});
    return made;
  }

  void Fold(const Host& host, Instance& instance) {
    const Record& record = host.log[instance.next];
    FailUnless(instance.task->Fold({.offset = Offset(instance.next),
                                    .key = record.key,
                                    .value = record.value,
                                    .timestamp_ms = 1}),
               "fold");
    ++instance.next;
  }

  void StepShard(Host& host) {
    if (host.away_turns > 0) {
      --host.away_turns;
      return;
    }
    if (!host.now) host.now = Begin(host, host.parameters.Clone());
    if (failed()) return;
    if (host.older && random_.Chance(0.5)) {
      Advance(host, *host.older, true);
    } else {
      Advance(host, *host.now, false);
    }
  }

  void Advance(Host& host, Instance& instance, bool is_zombie) {
    ShardTask& task = *instance.task;
    std::vector<OutgoingRecord> out;
    const uint64_t records = random_.Between(1, 8);
    for (uint64_t i = 0; i < records && instance.next < host.log.size(); ++i) {
      Fold(host, instance);
      if (task.owes_previous_answer()) FailUnless(task.AnswerDue(out), "answers");
    }
    if (task.replayed() && !instance.is_announced) {
      FailUnless(task.Announce(out), "announce");
      instance.is_announced = true;
    }
    FailUnless(task.AnswerDue(out), "answers");
    for (OutgoingRecord& record : out) {
      if (is_zombie && record.topic == Topic::kGradients) Count("zombie exchanges");
      if (!Send(std::move(record)) && !is_zombie) instance.is_announced = false;
    }
    if (!is_zombie) AdvanceCheckpoint(host, instance);
  }

  // Returns whether it has arrived.
  bool Send(OutgoingRecord record) {
    const bool is_exchange = record.topic == Topic::kGradients;
    if (with_faults_ && random_.Chance(0.05)) {
      Count(is_exchange ? "exchange lost, and said again" : "answer lost, and said again");
      return false;
    }
    if (!is_exchange) {
      weights_.at(static_cast<size_t>(record.partition))
          .push_back({std::move(record.key), std::move(record.value)});
      return true;
    }
    std::vector<Record>& log = hosts_.at(static_cast<size_t>(record.partition)).log;
    Record made{std::move(record.key), std::move(record.value)};
    if (!Change(made)) return true;
    if (with_faults_ && random_.Chance(0.1)) {
      Count("exchange repeated");
      log.push_back(made);
      if (error_ == GroupError::kTakesADeltaTwice) DoubleDelta(log.back());
    }
    log.push_back(std::move(made));
    return true;
  }

  void AdvanceCheckpoint(Host& host, Instance& instance) {
    if (!instance.writing) {
      if (!random_.Chance(0.1)) return;
      StatusOr<std::optional<Checkpoint>> begun = instance.task->BeginCheckpoint();
      FailUnless(begun.status(), "checkpoint");
      if (begun.ok()) instance.writing = *std::move(begun);
      return;
    }
    if (!random_.Chance(0.3)) return;
    const Checkpoint checkpoint = *std::exchange(instance.writing, std::nullopt);
    if (with_faults_ && random_.Chance(0.2)) {
      Count("checkpoint aborted");
      return instance.task->CheckpointFailed(checkpoint);
    }
    std::vector<Checkpoint::Entry> entries = checkpoint.entries;
    for (Checkpoint::Entry& entry : entries) ChangeBlock(entry);
    host.written += static_cast<int64_t>(entries.size());
    FailUnless(host.parameters.Write(BatchOf(std::move(entries), host.written)), "write");
    instance.task->CheckpointDone(checkpoint);
  }

  // ---- trainers ----

  void BeginTrainer(WorkerId worker) {
    WorkerOptions options = MakeWorkerOptions(job_.features, job_.training, worker);
    options.max_frame_bytes = job_.max_frame_bytes;
    Trainer& trainer = trainers_[worker];
    trainer.task = std::make_unique<TrainerTask>(options, *model_, *LayOutParameters(job_.features),
                                                 ++attempts_);
    trainer.shared = std::make_unique<SharedWeightsReader>(WeightsShapeFrom(options, *model_));
    trainer.next = weights_[worker].size();
    trainer.next_shared = weights_[static_cast<size_t>(options.SharedPartition())].size();
    trainer.offered.reset();
    std::vector<OutgoingRecord> out;
    trainer.task->Start(out);
    SendUpdates(out);
  }

  void SendUpdates(std::vector<OutgoingRecord>& out) {
    for (OutgoingRecord& record : out) {
      if (with_faults_ && random_.Chance(0.05)) continue;  // it repeats what is unanswered
      std::vector<Record>& log = hosts_.at(static_cast<size_t>(record.partition)).log;
      log.push_back({record.key, record.value});
      if (with_faults_ && random_.Chance(0.05)) log.push_back(log.back());
    }
    out.clear();
  }

  void StepTrainer(WorkerId worker) {
    Trainer& trainer = trainers_[worker];
    const auto group = GroupOfWorker(job_.training, worker);
    const std::vector<Record>& own = weights_[worker];
    const std::vector<Record>& shared = weights_[job_.workers() + group];
    for (uint64_t records = random_.Between(1, 8); records > 0; --records) {
      if (trainer.next < own.size()) {
        const Record& record = own[trainer.next++];
        FailUnless(trainer.task->ProcessWeights(record.key, record.value), "weights");
      }
      if (trainer.next_shared < shared.size()) {
        const Record& record = shared[trainer.next_shared++];
        const auto read = trainer.shared->Take(record.key, record.value);
        FailUnless(read.status(), "shared weights");
        if (read.ok() && *read != nullptr) trainer.task->ProcessShared(*read);
      }
    }
    TrainerSteps& steps = trainer.task->steps();
    const std::optional<Clock> clock = steps.values_at();
    if (clock && trainer.offered != clock) {
      trainer.offered = clock;
      if (*clock < job_.updates[worker]) {
        steps.Add(*clock, StepOf(job_, worker, *clock));
      } else {
        steps.Leave();
      }
    }
    std::vector<OutgoingRecord> out;
    FailUnless(trainer.task->Advance(out), "advance");
    if (random_.Chance(0.01)) trainer.task->Repeat(out);
    SendUpdates(out);
  }

  // ---- what happens ----

  void Turn() {
    if (random_.Chance(0.5)) {
      StepShard(hosts_[random_.Below(hosts_.size())]);
    } else {
      StepTrainer(WorkerId(random_.Below(trainers_.size())));
    }
  }

  void MakeFault() {
    Host& host = hosts_[random_.Below(hosts_.size())];
    switch (random_.Below(5)) {
      case 0:
      case 1:
        if (!host.now) return;
        if (host.now->task->processor().sync().open()) Count("killed within an exchange");
        host.now.reset();
        return;
      case 2:
        if (!host.now) return;
        host.older = std::exchange(host.now, std::nullopt);
        if (host.older->writing) host.older->writing.reset();
        return;
      case 3:
        host.now.reset();
        host.older.reset();
        host.away_turns = random_.Between(1, 400);
        if (host.options.group == 0) Count("primary away");
        return;
      default:
        Count("trainer killed");
        return BeginTrainer(WorkerId(random_.Below(trainers_.size())));
    }
  }

  bool HasEnded() const {
    return std::ranges::all_of(hosts_, [&](const Host& host) {
      if (!host.now || !host.now->task->replayed()) return false;
      const ServerProcessor& processor = host.now->task->processor();
      const bool ends_early = error_ == GroupError::kEndsBeforeTheLast && host.options.group == 0;
      if (error_ == GroupError::kEndsBeforeTheLast && host.options.group != 0) return true;
      return ends_early ? processor.AllLeft() : processor.ended();
    });
  }

  // ---- what must be true ----

  void CheckEnd() {
    for (Host& host : hosts_) {
      CheckTotals(host);
      CheckRefold(host);
    }
  }

  // Whether the numbers of this worker come to the group by groups that exchange with it.
  bool IsBelow(WorkerId worker, uint32_t group) const {
    uint32_t at = GroupOfWorker(job_.training, worker);
    while (at != group && at != 0) at = job_.training.group(static_cast<int>(at)).neighbor();
    return at == group;
  }

  void CheckTotals(const Host& host) {
    const ServerOptions& options = host.options;
    const std::span<const float> values = host.now->task->processor().shard().weights();
    for (uint64_t key = options.range.begin; key < options.range.end; ++key) {
      const bool is_exact =
          options.group == 0 || (key < job_.workers() && IsBelow(WorkerId(key), options.group));
      if (!is_exact) continue;
      const auto value = static_cast<double>(values[key - options.range.begin]);
      if (value == static_cast<double>(total_[key])) continue;
      Fail("group " + std::to_string(options.group) + " has " + std::to_string(value) +
           " as number " + std::to_string(key) + ", which is " + std::to_string(total_[key]));
    }
    if (host.now->task->processor().sync().exchanges() > 1) Count("several exchanges");
    if (options.neighbor && !options.sources.empty()) Count("group between two others");
    if (options.neighbor && host.now->task->processor().sync().updates_to_send()) {
      Fail("an exchange may still begin");
    }
  }

  static std::string StateOf(const ShardTask& task) {
    ShardState state;
    task.processor().SaveState(state);
    std::string bytes = state.SerializeAsString();
    const ParameterShard& shard = task.processor().shard();
    for (size_t block = 0; block < shard.block_count(); ++block) {
      bytes += shard.EncodeBlock(block).value;
    }
    return bytes;
  }

  void CheckRefold(const Host& host) {
    Instance fresh = Begin(host, std::make_unique<MemoryByteMap>());
    while (fresh.next < host.now->next && !failed()) Fold(host, fresh);
    if (failed() || StateOf(*fresh.task) == StateOf(*host.now->task)) return;
    Fail("shard " + std::to_string(host.options.number()) + " is not the fold of its log");
  }

  // ---- errors on purpose ----

  static std::optional<Gradient> Read(const Record& record) {
    const StatusOr<Frame> frame = ParseFrame(record.value);
    Gradient message;
    if (!frame.ok() || frame->is_chunk || !message.ParseFromString(std::string(frame->body))) {
      return std::nullopt;
    }
    return message;
  }

  static void Write(const Gradient& message, Record& record) {
    record.value = MakeFrames(message.SerializeAsString(), 0).front();
  }

  // Returns whether it is sent.
  bool Change(Record& record) {
    std::optional<Gradient> message = Read(record);
    if (!message) return true;
    if (message->has_delta()) Count(message->delta().last() ? "last delta" : "delta");
    if (error_ == GroupError::kLosesADelta && message->has_delta()) {
      return message->delta().number() != 2;
    }
    if (error_ == GroupError::kCountsAPutAsAChange && message->has_delta() &&
        message->delta().number() == 1) {
      for (float& value : *message->mutable_delta()->mutable_slice()->mutable_dense()) {
        value += kFirst;
      }
      Write(*message, record);
    }
    if (error_ == GroupError::kAnswersWithout && message->has_neighbor_values()) {
      // (The values before the group's last delta: without what any of its trainers has done.)
      for (float& value : *message->mutable_neighbor_values()->mutable_slice()->mutable_dense()) {
        value -= 1;
      }
      Write(*message, record);
    }
    return true;
  }

  static void DoubleDelta(Record& record) {
    std::optional<Gradient> message = Read(record);
    if (!message || !message->has_delta()) return;
    for (float& value : *message->mutable_delta()->mutable_slice()->mutable_dense()) value *= 2;
    Write(*message, record);
  }

  // The two slots of exchanges are the last: handlers that add have none.
  void ChangeBlock(Checkpoint::Entry& entry) const {
    const bool forgets_base = error_ == GroupError::kForgetsTheBase;
    const bool forgets_last = error_ == GroupError::kForgetsTheLast;
    if (!(forgets_base || forgets_last) || !ParameterShard::IsBlockKey(entry.key)) return;
    ParameterBlock block;
    MILLRACE_CHECK(block.ParseFromString(std::string(ParseFrame(entry.value)->body)));
    const int half = block.slots_size() / 2;
    for (int i = forgets_base ? 0 : half; i < (forgets_base ? half : 2 * half); ++i) {
      block.set_slots(i, 0);
    }
    entry.value = MakeFrames(block.SerializeAsString(), 0).front();
  }

  Random random_;
  const GroupError error_;
  const GroupJob job_;
  const std::vector<int64_t> total_;
  std::unique_ptr<Model> model_;
  std::deque<Host> hosts_;
  std::vector<std::vector<Record>> weights_;  // by partition
  std::vector<Trainer> trainers_;
  uint64_t attempts_ = 0;
  bool with_faults_ = true;
  SeedOutcome outcome_;
};

}  // namespace

SeedOutcome RunGroupSeed(uint64_t seed, GroupError error) { return GroupWorld(seed, error).Run(); }

}  // namespace millrace::simulation
