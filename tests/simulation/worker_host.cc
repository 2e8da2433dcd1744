#include "tests/simulation/worker_host.h"

#include <algorithm>
#include <string>
#include <utility>

namespace millrace::simulation {

WorkerHost::WorkerHost(World& world, std::shared_ptr<Disk> disk)
    : WorkerProcess(world),
      disk_(std::move(disk)),
      shared_(WeightsShapeFrom(MakeWorkerOptions(world.scenario, WorkerId(0)), *world.model)) {
  disk_->in_use = true;
}

void WorkerHost::Die() {
  if (!alive()) return;
  Stop();
  world_.pipes.EndProcess(number(), world_.random);
  tasks_.clear();
  disk_->map->Crash(world_.random.Below(disk_->map->unflushed_batches() + 1));
  disk_->in_use = false;
}

void WorkerHost::Failed(WorkerId worker, const Hosted& hosted, const char* where,
                        const Status& status) {
  must_stop_ = true;
  const bool is_present = !hosted.lost && !zombie();
  if (world_.input_loss && world_.input_loss->worker == worker && absl::IsDataLoss(status)) {
    world_.input_loss->refused = world_.input_loss->refused || is_present;
    return;
  }
  world_.observer->OnError("worker " + std::to_string(worker) +
                           (is_present ? ", " : " (zombie), ") + where + ": " + status.ToString());
}

void WorkerHost::SendFrom(WorkerId worker) {
  Change(out_);
  world_.observer->OnSentByWorker(worker, out_);
  Send(out_);
}

WorkerFeed::Range WorkerHost::RowsOf(WorkerId worker) const {
  const auto partition = static_cast<int32_t>(worker);
  return {world_.log.Begin(Topic::kInputData, partition),
          world_.log.End(Topic::kInputData, partition)};
}

void WorkerHost::Assign(WorkerId worker) {
  if (world_.scenario.resizes() && world_.plan[worker].empty()) return;  // it is not there yet
  std::optional<WorkerFeed::Committed> committed;
  if (const auto& commit = world_.committed[worker]) {
    committed = {commit->offset, commit->metadata};
    world_.Count("worker starts at a commit");
    if (world_.scenario.online()) world_.Count("online learner starts at a commit");
  }
  AssignFrom(worker, committed);
}

void WorkerHost::AssignFrom(WorkerId worker,
                            const std::optional<WorkerFeed::Committed>& committed) {
  const auto partition = static_cast<int32_t>(worker);
  Hosted hosted;
  WorkerOptions options = Options(worker);
  if (world_.scenario.resizes()) {
    hosted.plan_seen = world_.plan[worker].size();
    hosted.joined = world_.plan[worker].back().joined();
    options.joined = Clock(hosted.joined);
  }
  hosted.task = std::make_unique<WorkerTask>(options, world_.scenario.shape(), *world_.model,
                                             world_.next_attempt++);
  hosted.feed.emplace(*hosted.task);
  if (world_.scenario.resizes()) {
    hosted.task->StartLeased(world_.plan[worker].back());
  } else {
    const StatusOr<Offset> offset =
        hosted.feed->Assigned(committed, RowsOf(worker), disk_->map.get());
    if (!offset.ok()) return Failed(worker, hosted, "start", offset.status());
    hosted.next_row = *offset;
  }
  // Reading stands at the end before the first question is asked: no answer is missed.
  hosted.next_weights = world_.log.End(Topic::kWeights, partition);
  Assigned(worker, hosted);
  if (tasks_.empty()) next_shared_ = FirstShared();
  hosted.feed->Started(out_);
  SendFrom(worker);
  tasks_[worker] = std::move(hosted);
  world_.pipes.Subscribe(number(), Workers());
}

std::set<WorkerId> WorkerHost::Workers() const {
  std::set<WorkerId> workers;
  for (const auto& [worker, hosted] : tasks_) workers.insert(worker);
  return workers;
}

void WorkerHost::Revoke(WorkerId worker, bool lost) {
  const auto found = tasks_.find(worker);
  if (found == tasks_.end()) return;
  if (!lost) Commit(worker, found->second);
  Save(found->second);
  Hosted revoked = std::move(found->second);
  tasks_.erase(found);
  world_.pipes.Subscribe(number(), Workers());
  Revoked(worker, std::move(revoked));
}

void WorkerHost::Lose(WorkerId worker) {
  const auto found = tasks_.find(worker);
  if (found != tasks_.end()) found->second.lost = true;
}

bool WorkerHost::Step() {
  if (tasks_.empty()) return false;
  if (world_.scenario.resizes() && world_.random.Chance(0.3) && FollowPlan()) return true;
  if (world_.scenario.direct && world_.random.Chance(0.5) && ReadStraight()) return true;
  if (world_.random.Chance(0.5) && ReadShared()) return true;
  const size_t first = world_.random.Below(tasks_.size());
  const bool weights_first = world_.random.Chance(0.5);
  // From a task drawn by chance on, the first that has something to do.
  for (size_t i = 0; i < tasks_.size(); ++i) {
    auto entry = tasks_.begin();
    std::advance(entry, static_cast<ptrdiff_t>((first + i) % tasks_.size()));
    auto& [worker, hosted] = *entry;
    const bool did = weights_first ? ReadWeights(worker, hosted) || ReadRows(worker, hosted)
                                   : ReadRows(worker, hosted) || ReadWeights(worker, hosted);
    if (did) return true;
  }
  return ReadShared() || (world_.scenario.direct && ReadStraight());
}

bool WorkerHost::ReadStraight() {
  if (const std::optional<OutgoingRecord> record = world_.pipes.Take(number())) {
    world_.Count("answer that came straight");
    TakeStraight(*record);
    return true;
  }
  return world_.faults && world_.random.Chance(0.1) &&
         world_.pipes.Open(number(), Workers(), world_.random);
}

void WorkerHost::TakeStraight(const OutgoingRecord& record) {
  const bool is_shared = record.partition == SharedWeightsPartition(world_.scenario.workers);
  const auto found = tasks_.find(static_cast<WorkerId>(record.partition));
  Status taken = absl::OkStatus();
  if (is_shared) {
    const auto shared = shared_.Take(record.key, record.value);
    taken = shared.status();
    for (auto& [worker, hosted] : tasks_) {
      if (!shared.ok() || *shared == nullptr) continue;
      hosted.feed->TakeShared(*shared);
      Advance(worker, hosted);
    }
  } else if (found != tasks_.end()) {
    taken = found->second.feed->TakeStraight(record.key, record.value);
    Advance(found->first, found->second);
  }
  if (!taken.ok()) world_.observer->OnError("an answer that came straight: " + taken.ToString());
}

bool WorkerHost::FollowPlan() {
  std::vector<WorkerId> behind;
  for (const auto& [worker, hosted] : tasks_) {
    if (hosted.plan_seen < world_.plan[worker].size()) behind.push_back(worker);
  }
  if (behind.empty()) return false;
  const WorkerId worker = behind[world_.random.Below(behind.size())];
  Hosted& hosted = tasks_.at(worker);
  const WorkerLeases& leases = world_.plan[worker].back();
  hosted.plan_seen = world_.plan[worker].size();
  bool goes_on = leases.joined() == hosted.joined;
  if (goes_on) {
    const StatusOr<bool> followed = hosted.feed->TakeLeases(leases, {});
    if (!followed.ok()) Failed(worker, hosted, "leases", followed.status());
    if (!followed.ok()) return true;
    goes_on = *followed;
  } else {
    world_.Count("worker joins again");
  }
  if (goes_on) {
    Advance(worker, hosted);
    return true;
  }
  const bool lost = hosted.lost;
  Revoke(worker, true);
  if (!lost) Assign(worker);
  return true;
}

// Where the task wants a record, or the next one behind it.
bool WorkerHost::ReadLeased(WorkerId worker, Hosted& hosted) {
  bool did = false;
  for (uint64_t i = world_.random.Between(1, 5); i > 0; --i) {
    const std::optional<LeaseReader::Wish> wish = hosted.task->WantedLease();
    if (!wish) break;
    const LogRecord* record =
        world_.log.Next(Topic::kInputData, static_cast<int32_t>(wish->partition), wish->offset);
    if (record == nullptr) break;
    did = true;
    const Status status =
        hosted.feed->TakeRows({record->offset, record->timestamp_ms, record->key, record->value});
    if (!status.ok()) {
      Failed(worker, hosted, "leased row", status);
      return true;
    }
  }
  if (did) Advance(worker, hosted);
  return did;
}

bool WorkerHost::ReadRows(WorkerId worker, Hosted& hosted) {
  if (world_.scenario.resizes()) return ReadLeased(worker, hosted);
  if (hosted.is_held) {
    world_.Count("reader held back");
    return false;
  }
  const auto partition = static_cast<int32_t>(worker);
  const WorkerFeed::Range rows = RowsOf(worker);
  if (hosted.next_row < rows.begin || hosted.next_row > rows.end) {
    if (const Status gone = CheckGone(hosted, rows); !gone.ok()) {
      Failed(worker, hosted, "row", gone);
      return true;
    }
    // Another task of this worker, a zombie maybe, is further on. Nobody needs what was deleted.
    world_.Count("worker behind a deletion of rows");
    const bool lost = hosted.lost;
    Revoke(worker, true);
    if (!lost) AssignFrom(worker, std::nullopt);
    return true;
  }
  const bool in_bulk = world_.log.End(Topic::kInputData, partition) > 100;
  const uint64_t most = in_bulk ? 100 : 3;
  bool did = false;
  for (uint64_t i = world_.random.Between(1, most); i > 0; --i) {
    const LogRecord* record = world_.log.Next(Topic::kInputData, partition, hosted.next_row);
    if (record == nullptr) break;
    did = true;
    hosted.next_row = record->offset + 1;
    const Status status =
        hosted.feed->TakeRows({record->offset, record->timestamp_ms, record->key, record->value});
    if (!status.ok()) {
      Failed(worker, hosted, "row", status);
      return true;
    }
  }
  if (did) Advance(worker, hosted);
  return did;
}

bool WorkerHost::ReadWeights(WorkerId worker, Hosted& hosted) {
  const auto partition = static_cast<int32_t>(worker);
  if (hosted.next_weights < world_.log.Begin(Topic::kWeights, partition)) {
    // Weights are short-lived: who was away for longer than they are kept asks again.
    world_.Count("worker behind the weights");
    hosted.next_weights = world_.log.End(Topic::kWeights, partition);
    hosted.feed->Started(out_);
    SendFrom(worker);
    return true;
  }
  const LogRecord* record = world_.log.Next(Topic::kWeights, partition, hosted.next_weights);
  if (record == nullptr) return false;
  hosted.next_weights = record->offset + 1;
  hosted.feed->TakeWeights(record->offset, record->key, ReadOf(worker, record->value), out_);
  Advance(worker, hosted);
  return true;
}

Offset WorkerHost::FirstShared() const {
  return world_.log.End(Topic::kWeights, SharedWeightsPartition(world_.scenario.workers));
}

bool WorkerHost::ReadShared() {
  const int32_t partition = SharedWeightsPartition(world_.scenario.workers);
  if (next_shared_ < world_.log.Begin(Topic::kWeights, partition)) {
    world_.Count("worker behind the shared weights");
    next_shared_ = FirstShared();
    for (auto& [worker, hosted] : tasks_) {
      hosted.feed->Started(out_);
      SendFrom(worker);
    }
    return true;
  }
  const LogRecord* record = world_.log.Next(Topic::kWeights, partition, next_shared_);
  if (record == nullptr) return false;
  next_shared_ = record->offset + 1;
  TakeShared(*record);
  return true;
}

void WorkerHost::TakeShared(const LogRecord& record) {
  const StatusOr<std::shared_ptr<const SharedWeights>> shared =
      shared_.Take(record.key, record.value);
  for (auto& [worker, hosted] : tasks_) {
    if (!shared.ok()) {
      hosted.task->ProcessUnusableShared(record.offset, record.key, record.value, shared.status(),
                                         out_);
      SendFrom(worker);
    } else if (*shared != nullptr) {
      hosted.feed->TakeShared(*shared);
      Advance(worker, hosted);
    }
  }
}

void WorkerHost::Advance(WorkerId worker, Hosted& hosted) {
  if (Status status = hosted.feed->Advance(out_).status(); !status.ok()) {
    Failed(worker, hosted, "advance", status);
  }
  if (const std::optional<bool> hold = hosted.feed->TakeHold(); hold && Obeys(*hold)) {
    hosted.is_held = *hold;
  }
  hosted.task->TakeEvaluations();
  SendFrom(worker);
}

void WorkerHost::RepeatAll() {
  for (auto& [worker, hosted] : tasks_) {
    hosted.task->Repeat(out_);
    if (!out_.empty()) world_.Count("repeat");
    SendFrom(worker);
  }
}

void WorkerHost::Commit(WorkerId worker, Hosted& hosted) {
  const auto partition = static_cast<int32_t>(worker);
  const WorkerFeed::Positions positions = hosted.feed->TakePositions();
  const std::optional<InputPosition> position = PositionToCommit(*hosted.task, positions.commit);
  // A commit of one who has lost the partition is refused, and any may get lost; what is deleted
  // is not coupled to it.
  if (position && !hosted.lost && !zombie() && !world_.Fault("lost commit", 0.2)) {
    world_.committed[worker] = {position->offset, position->Metadata()};
    world_.Count("commit");
    if (RecordAround(worker, *position) != nullptr) world_.Count("commit within a record");
  }
  if (world_.random.Chance(0.5)) return;
  Trim(Topic::kInputData, partition, positions.rows_end);
  Trim(Topic::kWeights, partition, positions.weights_end);
}

const LogRecord* WorkerHost::RecordAround(WorkerId worker, const InputPosition& position) const {
  const auto partition = static_cast<int32_t>(worker);
  if (position.offset < world_.log.Begin(Topic::kInputData, partition)) return nullptr;
  const LogRecord* record = world_.log.Next(Topic::kInputData, partition, position.offset);
  const auto key = record == nullptr ? std::nullopt : DecodeInputKey(record->key);
  return key && key->first < position.row && position.row < key->end() ? record : nullptr;
}

void WorkerHost::Trim(Topic topic, int32_t partition, std::optional<Offset> end) {
  // (Of a topic that was recreated there may be less than that.)
  if (!end || *end <= world_.log.Begin(topic, partition) || *end > world_.log.End(topic, partition))
    return;
  if (topic == Topic::kInputData) world_.Count("input-data truncated");
  world_.log.DeleteBefore(topic, partition, *end);
}

void WorkerHost::CommitAll() {
  for (auto& [worker, hosted] : tasks_) Commit(worker, hosted);
}

void WorkerHost::Save(Hosted& hosted) {
  if (must_stop_) return;  // the loop has ended; what its disk refused is not tried again
  WriteBatch batch;
  hosted.task->SaveTo(batch);
  if (batch.empty()) return;
  if (world_.Fault("full disk of a worker", world_.disk_errors)) {
    must_stop_ = true;
    return;
  }
  world_.Count("buffer saved");
  if (!disk_->map->Write(batch).ok()) world_.observer->OnError("a disk refuses a batch");
}

std::string WorkerHost::Describe(WorkerId worker) const {
  const WorkerTask& is = task(worker);
  return ", its task at " + std::to_string(is.clock()) +
         (is.owes_update() ? " owes an update" : "") + (is.ended() ? ", has read all" : "") +
         ", holds " + std::to_string(is.buffered_rows()) + ", " +
         (is.WantsRows() ? "wants rows;" : "wants no rows;");
}

void WorkerHost::SaveAll() {
  for (auto& [worker, hosted] : tasks_) Save(hosted);
  if (world_.random.Chance(0.5) && !disk_->map->Flush().ok()) {
    world_.observer->OnError("a disk refuses to flush");
  }
}

}  // namespace millrace::simulation
