#include "tests/simulation/server_host.h"

#include <string>
#include <utility>

#include "base/error_marks.h"
#include "tasks/checkpoint.h"
#include "tests/simulation/server_store.h"

namespace millrace::simulation {

ServerHost::ServerHost(World& world, ShardId shard, std::shared_ptr<Disk> disk)
    : Host(world),
      shard_(shard),
      partition_(static_cast<int32_t>(shard)),
      transactional_id_("shard-" + std::to_string(shard)),
      disk_(std::move(disk)) {
  disk_->in_use = true;
  store_ = std::make_unique<ServerStore>(world_, *disk_);
}

ServerHost::~ServerHost() = default;

OrderedByteMap& ServerHost::store() { return *store_; }

void ServerHost::Die() {
  if (!alive()) return;
  Stop();
  world_.pipes.EndServer(number(), world_.random);
  run_.reset();
  disk_->map->Crash(world_.random.Below(disk_->map->unflushed_batches() + 1));
  disk_->in_use = false;
}

void ServerHost::Failed(const char* where, const Status& status) {
  must_stop_ = true;
  failure_ = status;
  if (world_.loss && world_.loss->shard == shard_ &&
      (absl::IsDataLoss(status) || absl::IsOutOfRange(status))) {
    world_.loss->refused = true;
    return;
  }
  if (store_->broken()) return;  // it stops, as it should
  // A zombie that fences late fences its successor, whose log it may then truncate.
  if (!replaced_ && world_.log.IsNewest(transactional_id_, epoch_)) {
    world_.observer->OnError(std::string("server, ") + where + ": " + status.ToString());
  }
}

bool ServerHost::Step() {
  switch (phase_) {
    case Phase::kFence:
      if (FencesFirst()) Fence();
      phase_ = Phase::kLoad;
      return true;
    case Phase::kLoad:
      Load();
      return true;
    case Phase::kParameters:
      CatchUp();
      return true;
    case Phase::kStart:
      if (!FencesFirst()) Fence();
      BeginReplay();
      return true;
    case Phase::kFirstCheckpoint:
      StepFirstCheckpoint();
      return true;
    case Phase::kLive:
      return ReadGradients();
    case Phase::kAtCut:
      SaveAtCut();
      return true;
  }
  return false;
}

bool ServerHost::TryToAnnounce() {
  if (Status status = Announce(out_).status(); !status.ok()) {
    Failed("announcement", status);
    return true;
  }
  if (out_.empty()) return false;
  if (world_.loss && world_.loss->shard == shard_) world_.loss->answered = true;
  world_.observer->OnAnnouncement(*task_, out_);
  SendAnswers();
  return true;
}

void ServerHost::DeliveryFailed() {
  if (feed_) feed_->AnswersLost();
}

bool ServerHost::ReadGradients() {
  if (TryToAnnounce() || AnswerLost()) return true;
  if (world_.random.Chance(0.02)) PublishWeights();
  const Offset before = next_gradient_;
  for (uint64_t i = world_.random.Between(1, kRecordsAtOnce); i > 0; --i) {
    if (next_gradient_ < world_.log.Begin(Topic::kGradients, partition_)) {
      Failed("gradients", absl::DataLossError("the records to be read next were deleted"));
      return true;
    }
    const LogRecord* record = world_.log.Next(Topic::kGradients, partition_, next_gradient_);
    if (record == nullptr) break;
    const bool replaying = !task_->replayed();
    const Offset position = task_->position();
    if (replaying) world_.Count("gradient replayed");
    next_gradient_ = record->offset + 1;
    const Status status =
        Fold({record->offset, record->key, record->value, record->timestamp_ms}, out_);
    if (!status.ok()) {
      Failed("gradients", status);
      return true;
    }
    world_.observer->OnFolded(*task_);
    if (task_->snapshot()) {
      phase_ = Phase::kAtCut;
      saving_given_up_ = false;
      break;
    }
    // The record before the position is only looked at.
    const bool folded = task_->position() > position;
    if (folded && !replaying) due_.push_back(task_->position());
    if (!task_->owes_answers()) AnswerDue();
    // Who has just caught up answers everybody before it reads on.
    if (replaying && task_->replayed()) break;
  }
  if (phase_ == Phase::kLive) AnswerDue();
  return next_gradient_ != before;
}

void ServerHost::PublishWeights() {
  const StatusOr<bool> is_sent = feed_->PublishWeights(out_);
  if (!is_sent.ok()) return Failed("weights for followers", is_sent.status());
  if (!*is_sent) return;
  world_.Count("weights for followers");
  world_.observer->OnAnnouncement(*task_, out_);
  SendAnswers();
}

void ServerHost::AnswerDue() {
  if (const Status status = feed_->AnswerDue(out_); !status.ok()) return Failed("answers", status);
  if (!due_.empty()) world_.observer->OnAnswers(*task_, std::exchange(due_, {}), out_);
  SendAnswers();
}

void ServerHost::SendAnswers() {
  if (!world_.scenario.direct) return Send(out_);
  std::vector<OutgoingRecord> to_log;
  for (OutgoingRecord& record : out_) {
    if (world_.pipes.Send(number(), record)) {
      to_log.push_back(std::move(record));
    } else {
      world_.Count("answer that goes straight only");
    }
  }
  out_.clear();
  Send(to_log);
}

bool ServerHost::AnswerLost() {
  if (!world_.scenario.direct) return false;
  world_.pipes.Offer(number());
  const bool is_broken = world_.pipes.IsBroken(number());
  const std::vector<WorkerId> lost = world_.pipes.TakeLost(number(), world_.random);
  if (lost.empty()) return is_broken;
  world_.Count("pipe of answers that broke");
  AnswerDue();
  AnswerAgain(lost);
  if (const Status status = feed_->AnswerDue(out_); !status.ok()) Failed("answers", status);
  world_.observer->OnAnnouncement(*task_, out_);
  SendAnswers();
  return true;
}

// Before anything else is folded: what the store has then is the cut. (A server waits here; others
// go on meanwhile, and it may die between any two steps.)
void ServerHost::SaveAtCut() {
  if (world_.Fault("crash at a cut", 0.02)) {
    must_stop_ = true;
    return;
  }
  if (world_.random.Chance(0.3)) PassOver();
  if (run_ != nullptr || (!task_->saved() && !saving_given_up_)) {
    StepCheckpoint();
    return;
  }
  if (task_->saved()) {
    world_.observer->OnSnapshotPart(*task_->snapshot(), *task_, *disk_->map,
                                    world_.log.IsNewest(transactional_id_, epoch_));
  } else {
    world_.Count("cut without a durable checkpoint");
  }
  LeaveCut();
}

void ServerHost::LeaveCut() {
  phase_ = Phase::kLive;
  const StatusOr<std::optional<Offset>> read_from = feed_->LeaveCut();
  if (!read_from.ok()) return Failed("cut", read_from.status());
  if (*read_from) ReadFrom(**read_from);
  world_.observer->OnFolded(*task_);
  due_.push_back(task_->position());
  AnswerDue();
}

// The reader goes on while the shard stands still, and what it brings is read again.
void ServerHost::PassOver() {
  if (next_gradient_ < world_.log.Begin(Topic::kGradients, partition_)) return;
  const LogRecord* record = world_.log.Next(Topic::kGradients, partition_, next_gradient_);
  if (record == nullptr) return;
  next_gradient_ = record->offset + 1;
  world_.Count("record passed over at a cut");
  if (Status status =
          Fold({record->offset, record->key, record->value, record->timestamp_ms}, out_);
      !status.ok()) {
    Failed("cut", status);
  }
}

void ServerHost::MayTimeOut() {
  if (!world_.log.HasOpenTransaction(transactional_id_, epoch_)) return;
  if (!world_.Fault("transaction that times out", 0.05)) return;
  world_.log.TimeOutTransaction(transactional_id_);
}

bool ServerHost::StepCheckpoint() {
  if (phase_ != Phase::kLive && phase_ != Phase::kStart && phase_ != Phase::kAtCut) return false;
  if (!log_) return false;
  if (run_ == nullptr) {
    StatusOr<std::optional<Checkpoint>> checkpoint = cycle_.Begin(*task_, world_.now);
    if (!checkpoint.ok()) {
      Failed("checkpoint", checkpoint.status());
      return true;
    }
    if (!*checkpoint) return false;
    run_ = std::make_unique<CheckpointRun>(**std::move(checkpoint), *log_, *store_, kBatchBytes,
                                           kRunBytes);
    return true;
  }
  const StatusOr<bool> last = StepRun(run_->checkpoint());
  const bool unknown =
      absl::IsUnavailable(last.status()) || absl::IsDeadlineExceeded(last.status());
  if (unknown || (last.ok() && !*last)) return true;
  if (must_stop_ || store_->died()) {
    must_stop_ = true;
    return true;
  }
  FinishCheckpoint(last.status());
  return true;
}

void ServerHost::FinishCheckpoint(const Status& result) {
  const StatusOr<CheckpointCycle::End> end = Finish(run_->checkpoint(), result);
  run_.reset();
  if (end.ok()) {
    if (at_cut()) saving_given_up_ = cycle_.GivesUpSaving(*end);
    return;
  }
  must_stop_ = true;
  if (IsFenced(end.status())) {
    world_.Count(TimedOut() ? "server fenced by a timeout" : "server fenced");
    if (world_.log.IsFenced(transactional_id_, epoch_)) return;
    world_.observer->OnError("a server stops as one that is fenced, and is not");
  } else if (!IsPermanent(end.status())) {
    Failed("checkpoint", end.status());
  }
}

StatusOr<bool> ServerHost::StepRun(const Checkpoint&) {
  MILLRACE_RETURN_IF_ERROR(run_->Step());
  return run_->done();
}

}  // namespace millrace::simulation
