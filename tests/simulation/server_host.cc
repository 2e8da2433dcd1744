#include "tests/simulation/server_host.h"

#include <string>
#include <utility>

#include "base/big_endian.h"
#include "base/error_marks.h"
#include "tasks/checkpoint.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kRecordsAtOnce = 3;
// Of what a store takes at once: few records, so that a crash meets checkpoints half stored.
constexpr size_t kBatchBytes = 400;

}  // namespace

// Both tell the host by a status and by `died` that the process ends in the middle of a call.
class ServerHost::Store final : public OrderedByteMap {
 public:
  Store(World& world, Disk& disk) : world_(world), disk_(disk) {}

  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    if (world_.Fault("disk that cannot be read", 0.001)) return Broken("an input/output error");
    return disk_.map->Get(key);
  }
  Status Write(const WriteBatch& batch) override {
    if (world_.Fault("full disk", world_.disk_errors)) return Broken("no space left on the device");
    return disk_.map->Write(batch);
  }
  Status Flush() override {
    if (world_.Fault("crash between write and flush", 0.02)) {
      died_ = true;
      return absl::InternalError("the process has died");
    }
    if (world_.Fault("disk that fails to flush", world_.disk_errors))
      return Broken("an input/output error");
    return disk_.map->Flush();
  }
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view key, std::string_view value)>& visit)
      const override {
    return disk_.map->Scan(begin, end, visit);
  }
  bool died() const { return died_; }
  // It has said so, once: what comes afterwards may well succeed.
  bool broken() const { return broken_; }

 private:
  Status Broken(const char* why) const {
    broken_ = true;
    return absl::ResourceExhaustedError(why);
  }

  World& world_;
  Disk& disk_;
  bool died_ = false;
  mutable bool broken_ = false;
};

class ServerHost::Log final : public CheckpointLog, private TransactionPort {
 public:
  Log(World& world, ShardId shard, const std::string& transactional_id, const uint64_t& epoch,
      bool& died)
      : world_(world),
        shard_(shard),
        partition_(static_cast<int32_t>(shard)),
        transactional_id_(transactional_id),
        epoch_(epoch),
        died_(died) {}

  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    return transaction_.Commit(checkpoint, previous_end);
  }

  Status TrimGradients(Offset position) override {
    if (world_.Fault("failed trim", 0.05)) return absl::OkStatus();
    if (position > world_.log.End(Topic::kGradients, partition_)) {
      return absl::OutOfRangeError("the log ends before that");
    }
    if (position > world_.log.Begin(Topic::kGradients, partition_))
      world_.Count("gradients truncated");
    world_.log.DeleteBefore(Topic::kGradients, partition_, position);
    return absl::OkStatus();
  }

 private:
  // The first of a transaction; one of before that was committed in silence is over.
  Status Begin() override {
    if (refused_for_good_) {
      world_.observer->OnError("a checkpoint is tried again that can never succeed");
    }
    committed_ = false;
    end_ = 0;
    lost_ = false;
    return absl::OkStatus();
  }

  Status Append(std::string_view key, std::string_view value) override {
    if (world_.Fault("crash in the middle of a transaction", 0.01)) return Died();
    if (world_.Fault("record of a transaction that is not delivered", 0.003)) {
      lost_ = true;
      return absl::OkStatus();
    }
    if (value.empty()) world_.Count("expired row removed");
    const StatusOr<Offset> offset = Known(world_.log.AppendInTransaction(
        transactional_id_, epoch_, Topic::kParameters, partition_, key, value));
    if (offset.ok()) end_ = *offset + 1;
    return offset.status();
  }

  Status AppendDeadLetter(std::string_view letter) override {
    return Known(world_.log.AppendInTransaction(transactional_id_, epoch_, Topic::kDeadLetter, 0,
                                                EncodeBigEndian32(shard_), letter))
        .status();
  }

  StatusOr<Offset> AwaitDelivery() override {
    if (world_.Fault("broker away from a transaction", 0.05)) {
      return absl::UnavailableError("the broker is away");
    }
    if (world_.Fault("transaction that is refused for good", 0.005)) {
      refused_for_good_ = true;
      return MarkPermanent(absl::AbortedError("not allowed"));
    }
    if (lost_) return absl::AbortedError("a record has timed out");
    return end_;
  }

  Status Commit() override {
    if (!world_.log.IsNewest(transactional_id_, epoch_)) return Fenced();
    if (!committed_ && world_.Fault("aborted transaction", 0.05)) return absl::AbortedError("");
    const bool answered = !world_.Fault("commit without an answer", 0.1);
    if (!answered && world_.random.Chance(0.5)) return NoAnswer();  // nor was it made
    if (!committed_) {
      MILLRACE_RETURN_IF_ERROR(world_.log.CommitTransaction(transactional_id_, epoch_));
      committed_ = true;
      world_.Count("checkpoint");
      world_.observer->OnCheckpointCommitted(shard_);
    }
    if (!answered) {
      world_.Count("commit made, but without an answer");
      return NoAnswer();
    }
    return world_.Fault("crash before the commit is known", 0.02) ? Died() : absl::OkStatus();
  }

  Status Abort() override {
    if (!world_.log.IsNewest(transactional_id_, epoch_)) return Fenced();
    if (world_.Fault("abort without an answer", 0.2)) return NoAnswer();
    return world_.log.AbortTransaction(transactional_id_, epoch_);
  }

  // As the client marks it.
  StatusOr<Offset> Known(StatusOr<Offset> offset) const {
    return absl::IsFailedPrecondition(offset.status()) ? Fenced() : offset;
  }
  static Status Fenced() {
    return MarkFenced(absl::FailedPreconditionError("a newer instance has taken over"));
  }
  static Status NoAnswer() { return absl::DeadlineExceededError("no answer"); }
  Status Died() {
    died_ = true;
    return absl::InternalError("the process has died");
  }

  World& world_;
  ShardId shard_;
  int32_t partition_;
  const std::string& transactional_id_;
  const uint64_t& epoch_;
  bool& died_;
  CheckpointTransaction transaction_{*this};
  Offset end_ = 0;
  bool lost_ = false;       // a record of this transaction
  bool committed_ = false;  // this transaction, whether that is known or not
  bool refused_for_good_ = false;
};

ServerHost::ServerHost(World& world, ShardId shard, std::shared_ptr<Disk> disk)
    : Host(world),
      shard_(shard),
      partition_(static_cast<int32_t>(shard)),
      transactional_id_("shard-" + std::to_string(shard)),
      disk_(std::move(disk)) {
  disk_->in_use = true;
  store_ = std::make_unique<Store>(world_, *disk_);
}

ServerHost::~ServerHost() = default;

OrderedByteMap& ServerHost::store() { return *store_; }

void ServerHost::Die() {
  if (!alive()) return;
  Stop();
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

void ServerHost::Fence() {
  epoch_ = world_.log.InitTransactions(transactional_id_);
  log_ = MakeLog();
}

std::unique_ptr<CheckpointLog> ServerHost::MakeLog() {
  return std::make_unique<Log>(world_, shard_, transactional_id_, epoch_, must_stop_);
}

void ServerHost::Load() {
  const StatusOr<Offset> from = ReadParametersOffset(*store_);
  if (!from.ok()) return Failed("store", from.status());
  const Offset end = world_.log.StableEnd(Topic::kParameters, partition_);
  if (Status fits = CheckCopy(*from, end); !fits.ok()) return Failed("parameters", fits);
  next_parameter_ = *from;
  if (next_parameter_ > 0) world_.Count("recovery from a disk");
  // Small enough for a checkpoint to come in parts, now and then.
  parameters_.emplace(world_.random.Between(1, 2000));
  phase_ = Phase::kParameters;
}

void ServerHost::CatchUp() {
  for (uint64_t i = world_.random.Between(1, kRecordsAtOnce); i > 0; --i) {
    const LogRecord* record = world_.log.Next(Topic::kParameters, partition_, next_parameter_);
    if (record == nullptr) return TakeParameters();
    next_parameter_ = record->offset + 1;
    world_.Count("record of parameters read at recovery");
    const StatusOr<std::optional<CheckpointAssembler::Part>> part =
        parameters_->Add(record->offset, record->key, record->value);
    if (!part.ok()) return Failed("parameters", part.status());
    if (!*part) continue;
    if (!(*part)->end) world_.Count("part of a checkpoint read at recovery");
    if (Status status = store_->Write(BatchOf((*part)->entries, (*part)->end)); !status.ok()) {
      return Failed("store", status);
    }
  }
}

void ServerHost::TakeParameters() {
  if (parameters_->unfinished()) {
    return Failed("parameters", absl::DataLossError("the last checkpoint has no end"));
  }
  task_ = std::make_unique<ShardTask>(Options(), *store_);
  if (Status status = task_->Load(); !status.ok()) return Failed("parameters", status);
  phase_ = Phase::kStart;
}

void ServerHost::BeginWithSnapshot() {
  world_.Count("shard starts from a snapshot");
  const StoredSnapshot snapshot = Start();
  FirstCheckpoint first(Options(), snapshot.start);
  for (const auto& [shard, part] : snapshot.parts) {
    first.AddWeights(part.begin, part.weights);
    const size_t slots = std::min(first.slots(), part.slots.size());
    for (size_t slot = 0; slot < slots; ++slot) first.AddSlot(slot, part.begin, part.slots[slot]);
    for (const StoredSnapshot::Row& row : part.rows) first.AddRow(row.id, row.head, row.floats);
    first.AddState(shard, part.state);
  }
  StatusOr<Checkpoint> checkpoint = first.Finish();
  if (!checkpoint.ok()) return Failed("snapshot", checkpoint.status());
  run_ = std::make_unique<CheckpointRun>(*std::move(checkpoint), *log_, *store_, kBatchBytes);
  phase_ = Phase::kFirstCheckpoint;
}

// Without a first checkpoint nothing is lost: the process ends, and the next begins once more.
void ServerHost::StepFirstCheckpoint() {
  if (const Status stepped = run_->Step(); !stepped.ok()) {
    world_.Count("first checkpoint that is not made");
    must_stop_ = true;
    return;
  }
  if (!run_->done()) return;
  run_.reset();
  task_ = std::make_unique<ShardTask>(Options(), *store_);
  if (Status status = task_->Load(); !status.ok()) return Failed("first checkpoint", status);
  phase_ = Phase::kStart;
}

void ServerHost::BeginReplay() {
  const Offset begin = world_.log.Begin(Topic::kGradients, partition_);
  if (world_.scenario.start && BeginsWithSnapshot(*task_, begin)) return BeginWithSnapshot();
  const Status status = StartReplay(begin, world_.log.End(Topic::kGradients, partition_));
  if (!status.ok()) return Failed("start of the replay", status);
  if (task_->processor().state_lost() && !task_->has_state()) {
    world_.Count("server starts without any copy");
    world_.observer->OnStateLost(*task_);
  }
  world_.observer->OnFolded(*task_);
  feed_.emplace(*task_);
  next_gradient_ = task_->gradients_position();
  phase_ = Phase::kLive;
}

bool ServerHost::TryToAnnounce() {
  if (Status status = Announce(out_).status(); !status.ok()) {
    Failed("announcement", status);
    return true;
  }
  if (out_.empty()) return false;
  if (world_.loss && world_.loss->shard == shard_) world_.loss->answered = true;
  world_.observer->OnAnnouncement(*task_, out_);
  Send(out_);
  return true;
}

void ServerHost::DeliveryFailed() {
  if (feed_) feed_->AnswersLost();
}

bool ServerHost::ReadGradients() {
  if (TryToAnnounce()) return true;
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
    if (folded && !replaying) world_.observer->OnAnswers(*task_, out_);
    Send(out_);
    // Who has just caught up answers everybody before it reads on.
    if (replaying && task_->replayed()) break;
  }
  return next_gradient_ != before;
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
    world_.observer->OnSnapshotPart(*task_->snapshot(), *task_, *disk_->map);
  } else {
    world_.Count("cut without a durable checkpoint");
  }
  LeaveCut();
}

void ServerHost::LeaveCut() {
  phase_ = Phase::kLive;
  const StatusOr<std::optional<Offset>> read_from = feed_->LeaveCut(out_);
  if (!read_from.ok()) return Failed("cut", read_from.status());
  if (*read_from) ReadFrom(**read_from);
  world_.observer->OnFolded(*task_);
  world_.observer->OnAnswers(*task_, out_);
  Send(out_);
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
    run_ = std::make_unique<CheckpointRun>(**std::move(checkpoint), *log_, *store_, kBatchBytes);
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
    world_.Count("server fenced");
  } else if (!IsPermanent(end.status())) {
    Failed("checkpoint", end.status());
  }
}

StatusOr<bool> ServerHost::StepRun(const Checkpoint&) {
  MILLRACE_RETURN_IF_ERROR(run_->Step());
  return run_->done();
}

}  // namespace millrace::simulation
