#include "tests/simulation/trainer_host.h"

#include <iterator>
#include <utility>

#include "tests/simulation/trainers.h"

namespace millrace::simulation {

TrainerHost::TrainerHost(World& world)
    : WorkerProcess(world),
      shared_(WeightsShapeFrom(MakeWorkerOptions(world.scenario, WorkerId(0)), *world.model)) {}

void TrainerHost::Die() {
  if (!alive()) return;
  Stop();
  tasks_.clear();
}

void TrainerHost::SendFrom(WorkerId worker) {
  Change(out_);
  world_.observer->OnSentByWorker(worker, out_);
  Send(out_);
}

void TrainerHost::Assign(WorkerId worker) {
  Hosted hosted;
  if (auto going = world_.going.extract(worker)) {
    GoingTrainer& trainer = going.mapped();
    if (trainer.task->steps().pending() > 0) {
      world_.Count("trainer goes over with a step on its way");
    }
    hosted.task = GoOver(worker, std::move(trainer.task));
    hosted.offered = trainer.offered;
    hosted.leaves = trainer.leaves;
  } else {
    hosted.task = NewTask(worker);
  }
  if (tasks_.empty()) {
    next_shared_ = world_.log.End(Topic::kWeights, SharedWeightsPartition(world_.scenario.workers));
  }
  Begin(worker, hosted);
  tasks_[worker] = std::move(hosted);
}

std::unique_ptr<TrainerTask> TrainerHost::NewTask(WorkerId worker) {
  return std::make_unique<TrainerTask>(MakeWorkerOptions(world_.scenario, worker), *world_.model,
                                       KeysOf(world_.scenario), world_.next_attempt++);
}

std::unique_ptr<TrainerTask> TrainerHost::GoOver(WorkerId worker,
                                                 std::unique_ptr<TrainerTask> task) {
  task->GoOver(MakeWorkerOptions(world_.scenario, worker), world_.next_attempt++);
  return task;
}

std::optional<GoingTrainer> TrainerHost::TakeTrainer(WorkerId worker) {
  const auto found = tasks_.find(worker);
  if (!alive() || zombie() || must_stop_ || found == tasks_.end() || found->second.lost) {
    return std::nullopt;
  }
  Hosted hosted = std::move(found->second);
  tasks_.erase(found);
  return GoingTrainer{std::move(hosted.task), hosted.offered, hosted.leaves};
}

// Reading stands at the end before the first question is asked: no answer is missed.
void TrainerHost::Begin(WorkerId worker, Hosted& hosted) {
  hosted.next_weights = world_.log.End(Topic::kWeights, static_cast<int32_t>(worker));
  hosted.task->Start(out_);
  SendFrom(worker);
}

void TrainerHost::Lose(WorkerId worker) {
  const auto found = tasks_.find(worker);
  if (found != tasks_.end()) found->second.lost = true;
}

bool TrainerHost::Step() {
  if (tasks_.empty()) return false;
  if (world_.random.Chance(0.5) && ReadShared()) return true;
  const size_t first = world_.random.Below(tasks_.size());
  // From a task drawn by chance on, the first that has something to do.
  for (size_t i = 0; i < tasks_.size(); ++i) {
    auto entry = tasks_.begin();
    std::advance(entry, static_cast<ptrdiff_t>((first + i) % tasks_.size()));
    auto& [worker, hosted] = *entry;
    if (MayStep(hosted) && world_.random.Chance(0.5)) {
      MakeStep(worker, hosted);
      return true;
    }
    if (ReadWeights(worker, hosted)) return true;
    if (MayStep(hosted)) {
      MakeStep(worker, hosted);
      return true;
    }
  }
  return ReadShared();
}

bool TrainerHost::ReadWeights(WorkerId worker, Hosted& hosted) {
  const auto partition = static_cast<int32_t>(worker);
  if (hosted.next_weights < world_.log.Begin(Topic::kWeights, partition)) {
    world_.Count("trainer behind the weights");
    Begin(worker, hosted);
    return true;
  }
  const LogRecord* record = world_.log.Next(Topic::kWeights, partition, hosted.next_weights);
  if (record == nullptr) return false;
  hosted.next_weights = record->offset + 1;
  if (!hosted.task->ProcessWeights(record->key, record->value).ok()) {
    world_.Count("answer that a trainer cannot use");
  }
  Advance(worker, hosted);
  return true;
}

bool TrainerHost::ReadShared() {
  const int32_t partition = SharedWeightsPartition(world_.scenario.workers);
  if (next_shared_ < world_.log.Begin(Topic::kWeights, partition)) {
    world_.Count("trainer behind the shared weights");
    next_shared_ = world_.log.End(Topic::kWeights, partition);
    for (auto& [worker, hosted] : tasks_) Begin(worker, hosted);
    return true;
  }
  const LogRecord* record = world_.log.Next(Topic::kWeights, partition, next_shared_);
  if (record == nullptr) return false;
  next_shared_ = record->offset + 1;
  const StatusOr<std::shared_ptr<const SharedWeights>> shared =
      shared_.Take(record->key, record->value);
  if (!shared.ok()) world_.Count("answer that a trainer cannot use");
  if (!shared.ok() || *shared == nullptr) return true;
  for (auto& [worker, hosted] : tasks_) {
    hosted.task->ProcessShared(*shared);
    Advance(worker, hosted);
  }
  return true;
}

bool TrainerHost::MayStep(const Hosted& hosted) {
  const std::optional<Clock> clock = hosted.task->steps().values_at();
  return clock && !hosted.leaves && hosted.offered != clock &&
         hosted.task->steps().MissingRows().empty();
}

bool TrainerHost::ReadRows(WorkerId worker, Clock clock, Hosted& hosted) {
  TrainerSteps& steps = hosted.task->steps();
  const std::vector<EmbeddingId> rows = RowsRead(world_.scenario, worker, clock);
  // (What was read of a clock that somebody has made up is gone.)
  const auto half = std::span(rows).first(rows.size() / 2);
  if (hosted.reads != clock || (hosted.parts_read > 1 && !steps.HasRows(rows)) ||
      !steps.HasRows(half)) {
    hosted.parts_read = 0;
  }
  hosted.reads = clock;
  while (hosted.parts_read < 2) {
    steps.ReadRows(hosted.parts_read++ == 0 ? half : std::span(rows));
    Advance(worker, hosted);
    if (steps.values_at() != clock || !steps.MissingRows().empty()) {
      world_.Count("trainer waits for rows");
      return true;
    }
  }
  if (!rows.empty()) world_.Count("trainer reads rows");
  return false;
}

void TrainerHost::MakeStep(WorkerId worker, Hosted& hosted) {
  TrainerSteps& steps = hosted.task->steps();
  const Clock clock = *steps.values_at();
  if (clock < uint64_t{world_.scenario.rows[worker]}) {
    if (ReadRows(worker, clock, hosted)) return;
    hosted.offered = clock;
    steps.Add(clock, MakeStep(worker, clock, steps));
  } else {
    hosted.leaves = true;
    steps.Leave();
  }
  Advance(worker, hosted);
}

TrainerStep TrainerHost::MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const {
  return StepOf(world_.scenario, worker, clock, steps.values(), steps.has_values(), RowsIn(steps));
}

RowReader TrainerHost::RowsIn(const TrainerSteps& steps) const {
  return [this, &steps](EmbeddingId row) -> std::vector<float> {
    if (!steps.HasRows({&row, 1})) return std::vector<float>(WidthOf(world_.scenario, row));
    const std::span<const float> values = steps.ValuesOf(row);
    return {values.begin(), values.end()};
  };
}

void TrainerHost::Advance(WorkerId worker, Hosted& hosted) {
  if (const Status status = hosted.task->Advance(out_); !status.ok()) {
    must_stop_ = true;
    const bool is_present = !hosted.lost && !zombie();
    world_.observer->OnError("trainer " + std::to_string(worker) +
                             (is_present ? ": " : " (zombie): ") + status.ToString());
  }
  SendFrom(worker);
}

void TrainerHost::RepeatAll() {
  for (auto& [worker, hosted] : tasks_) {
    hosted.task->Repeat(out_);
    if (!out_.empty()) world_.Count("repeat by a trainer");
    SendFrom(worker);
  }
}

std::string TrainerHost::Describe(WorkerId worker) const {
  const Hosted& hosted = tasks_.at(worker);
  const std::optional<Clock> at = hosted.task->steps().values_at();
  return ", its task at " + std::to_string(hosted.task->clock()) + ", holds " +
         std::to_string(hosted.task->steps().pending()) + " steps, " +
         (at ? "has values of clock " + std::to_string(uint64_t{*at}) : "has no values") +
         (hosted.leaves ? ", leaves;" : ";");
}

}  // namespace millrace::simulation
