#include "tests/simulation/planted.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "base/error_marks.h"
#include "tasks/state_codec.h"
#include "topics/frame.h"

namespace millrace::simulation {
namespace {

void Unchanged(Scenario&, Faults&) {}

void WholeMessages(Scenario& scenario, Faults&) { scenario.max_frame_bytes = kMaxFrameBytes; }

// The repeat timer would make up for what was not said; without it the run hangs.
void WithoutTimer(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  faults.timer = false;
  faults.retention = false;
}

void Sequential(Scenario& scenario, Faults&) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.training.mutable_consistency()->set_model(Training::Consistency::SEQUENTIAL);
  scenario.training.mutable_compression()->clear_top_k();  // such runs are compared with nothing
  // Nor do these go with what training in one process does (DrawEmbeddings).
  scenario.training.mutable_embedding()->clear_admit_after();
  scenario.training.mutable_embedding()->clear_expire_after_s();
}

void SequentialShards(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.shards = 3;
}

// So that rounds on several shards have embedding rows in them.
void SequentialEmbeddings(Scenario& scenario, Faults& faults) {
  SequentialShards(scenario, faults);
  scenario.ids = 2;
  scenario.classes = 2;
  Training& training = scenario.training;
  training.set_schedule(Training::ONE_PASS);
  training.set_model(Training::FACTORIZATION_MACHINE);
  training.clear_class_weight();
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  training.mutable_embedding()->set_factors(2);
  training.mutable_embedding()->set_initial_limit(0.5);
}

// Rows are stored late, and the job ends in nobody else's bytes.
void EventualEmbeddings(Scenario& scenario, Faults& faults) {
  SequentialEmbeddings(scenario, faults);
  scenario.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  scenario.training.mutable_embedding()->set_admit_after(2);
  scenario.training.clear_compression();
}

// The update in a record that is not split; empty: none.
std::optional<Gradient> UpdateIn(std::string_view value) {
  Gradient message;
  if (value.size() < 2 || value[1] != 0) return std::nullopt;
  if (!message.ParseFromArray(value.data() + 2, static_cast<int>(value.size() - 2))) {
    return std::nullopt;
  }
  if (!message.has_update()) return std::nullopt;
  return message;
}

std::string FrameOf(const google::protobuf::MessageLite& message) {
  return MakeFrames(message.SerializeAsString(), 0).front();
}

template <class Worker>
PlantedError InWorker(std::string name, uint64_t seeds,
                      std::function<void(Scenario&, Faults&)> adjust) {
  Factory factory = Factory::Production();
  factory.worker = [](World& world, std::shared_ptr<Disk> disk) {
    return std::make_unique<Worker>(world, std::move(disk));
  };
  return {std::move(name), seeds, std::move(factory), std::move(adjust)};
}

// With snapshots.
template <class Server>
PlantedError InServerAtCuts(std::string name, uint64_t seeds,
                            std::function<void(Scenario&, Faults&)> adjust) {
  Factory factory = Factory::Production();
  factory.server = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<Server>(world, shard, std::move(disk));
  };
  return {std::move(name), seeds, std::move(factory), std::move(adjust)};
}

template <class Follower>
PlantedError InFollower(std::string name, uint64_t seeds) {
  Factory factory = Factory::Production();
  factory.replica = [](World& world, ShardId shard, std::shared_ptr<Disk> disk) {
    return std::make_unique<Follower>(world, shard, std::move(disk));
  };
  return {std::move(name), seeds, std::move(factory), [](Scenario& scenario, Faults&) {
            scenario.shards = std::max(scenario.shards, 2u);
            scenario.replicas = std::max(scenario.replicas, 1u);
          }};
}

// Without snapshots: that a part's store is held against `parameters` would show much of this, too.
template <class Server>
PlantedError InServer(std::string name, uint64_t seeds,
                      std::function<void(Scenario&, Faults&)> adjust) {
  return InServerAtCuts<Server>(std::move(name), seeds,
                                [adjust = std::move(adjust)](Scenario& scenario, Faults& faults) {
                                  adjust(scenario, faults);
                                  faults.snapshots = 0;
                                });
}

// Folds some updates otherwise than they came.
class AltersUpdates : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  // False: as it came.
  virtual bool Alter(Gradient& update) const = 0;

 private:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) final {
    std::optional<Gradient> update = UpdateIn(record.value);
    if (!update || !Alter(*update)) return ServerHost::Fold(record, out);
    const std::string value = FrameOf(*update);
    GradientRecord altered = record;
    altered.value = value;
    return ServerHost::Fold(altered, out);
  }
};

// Takes the update that it took last once more.
class ForgetsDeduplication final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update.worker());
    if (!clocks.Contains(worker) || update.clock() + 1 != clocks.clock(worker)) {
      return false;
    }
    update.set_clock(update.clock() + 1);
    return true;
  }
};

// Of an update that names several rows the last one makes no step; all else of it is taken.
class LosesARow final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().embeddings().id_size() < 2) return false;
    EmbeddingBlock& rows = *update.mutable_update()->mutable_embeddings();
    const int width = rows.value_size() / rows.id_size();
    rows.mutable_id()->RemoveLast();
    rows.mutable_value()->Truncate(rows.id_size() * width);
    return true;
  }
};

// An update's rows make another step by the same gradients; nothing else does.
class StepsRowsTwice final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const uint64_t steps = task().processor().steps();
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    const std::optional<Gradient> update = UpdateIn(record.value);
    if (!update || task().processor().steps() == steps) return absl::OkStatus();
    const EmbeddingBlock& rows = update->update().embeddings();
    std::vector<float> gradients(rows.value().begin(), rows.value().end());
    for (float& value : gradients) value /= static_cast<float>(update->update().weight_sum());
    const float rate = static_cast<float>(world_.scenario.training.optimizer().learning_rate());
    return task().processor().embeddings()->Update(
        std::vector<EmbeddingId>(rows.id().begin(), rows.id().end()), gradients,
        record.timestamp_ms, [rate](auto gradient, std::span<float> values, auto) {
          for (size_t i = 0; i < values.size(); ++i) values[i] -= rate * gradient[i];
        });
  }
};

// Takes a time that is hours away from the last one for a clock that is wrong, and stays near.
class DoubtsTheTime final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    constexpr int64_t kHour = 3'600'000;
    GradientRecord doubted = record;
    doubted.timestamp_ms = std::min(record.timestamp_ms, last_ms_ + kHour);
    last_ms_ = doubted.timestamp_ms;
    return ServerHost::Fold(doubted, out);
  }

 private:
  int64_t last_ms_ = 0;
};

class ForgetsAnnouncement final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> Announce(std::vector<OutgoingRecord>&) override { return false; }
};

// What came while it stood at a cut is not read again.
class ReadsOnBehindACut final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  void ReadFrom(Offset) override {}
};

void Losses(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  faults.losses = true;
  faults.rate = std::max(faults.rate, 0.01);
}

// Takes the log as it finds it.
class StartsWhereverTheLogIs final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status StartReplay(Offset begin, Offset end) override {
    const Offset position = task().position();
    return ServerHost::StartReplay(std::min(begin, position), std::max(end, position));
  }
};

// Does not look at the record in front of its position.
class DoesNotRecogniseItsLog final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status StartReplay(Offset begin, Offset end) override {
    const Offset position = task().position();
    return ServerHost::StartReplay(position <= end ? std::max(begin, position) : begin, end);
  }
};

// Goes on with a copy of another `parameters`.
class TrustsItsCopy final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status CheckCopy(Offset, Offset) const override { return absl::OkStatus(); }
};

// Answers everybody while it stands at a cut, with what is not the answer of its position.
class AnnouncesAtACut final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    if (!at_cut()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(mutable_task().Announce(out));
    world_.observer->OnAnnouncement(task(), out);
    return absl::OkStatus();
  }
};

class ReleasesOneTooFar final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    options.consistency = ConsistencyPolicy::Bounded(*options.consistency.bound() + 1);
    return options;
  }
};

// Takes an update whatever its clock, if that is to come.
class BelievesAClockToCome final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update.worker());
    if (!clocks.Contains(worker)) return false;
    const Clock present = clocks.clock(worker);
    if (update.clock() <= present) return false;
    update.set_clock(present);
    return true;
  }
};

// Says nothing to who sends what is old.
class DropsInSilence final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::optional<Gradient> update = UpdateIn(record.value);
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update ? update->worker() : 0);
    const bool old = update && clocks.Contains(worker) && update->clock() < clocks.clock(worker);
    Status status = ServerHost::Fold(record, out);
    if (old) out.clear();
    return status;
  }
};

class AppliesPoison final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    for (float& value : *update.mutable_update()->mutable_slice()->mutable_dense()) {
      if (!std::isfinite(value)) value = 1;
    }
    for (float& value : *update.mutable_update()->mutable_slice()->mutable_sparse_value()) {
      if (!std::isfinite(value)) value = 1;
    }
    return true;
  }
};

// Adds up a round's gradients as they came. (Plain SGD, one shard; for the rest of the state it is
// right.)
class CombinesInArrivalOrder final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::optional<Gradient> update = UpdateIn(record.value);
    const ServerProcessor& processor = task().processor();
    if (!update || !processor.clocks().Contains(WorkerId(update->worker()))) {
      return ServerHost::Fold(record, out);
    }
    const WorkerId worker(update->worker());
    const uint64_t accepted = processor.counters().gradients_accepted();
    const uint64_t steps = processor.steps();
    const std::vector<float> before(processor.shard().weights().begin(),
                                    processor.shard().weights().end());
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    if (processor.counters().gradients_accepted() > accepted) arrived_.push_back(*update);
    if (processor.clocks().clock(worker) == update->clock()) return absl::OkStatus();
    const std::vector<Gradient> round = std::exchange(arrived_, {});
    if (processor.steps() == steps || round.size() < 3) return absl::OkStatus();
    return Overwrite(before, round, steps);
  }

 private:
  Status Overwrite(const std::vector<float>& before, const std::vector<Gradient>& round,
                   uint64_t step) {
    std::vector<float> sum(before.size());
    double weight = 0;
    for (const Gradient& message : round) {
      const Gradient::Update& update = message.update();
      if (update.row_count() == 0) continue;
      weight += update.weight_sum();
      const Slice& slice = update.slice();
      for (int i = 0; i < slice.dense_size(); ++i) sum[i] += slice.dense(i);
      for (int i = 0; i < slice.sparse_index_size(); ++i) {
        sum[slice.sparse_index(i)] += slice.sparse_value(i);
      }
    }
    const Training::Optimizer& optimizer = world_.scenario.training.optimizer();
    const auto rate = static_cast<float>(optimizer.learning_rate() /
                                         (1 + optimizer.decay() * static_cast<double>(step)));
    ParameterBlock block;
    for (size_t i = 0; i < sum.size(); ++i) {
      block.add_weights(before[i] - rate * (sum[i] * static_cast<float>(1 / weight)));
    }
    auto& shard = const_cast<ParameterShard&>(task().processor().shard());
    return shard.LoadBlock("p" + EncodeBigEndian64(0), FrameOf(block));
  }

  std::vector<Gradient> arrived_;
};

void SequentialSgdOfThree(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.shards = 1;
  while (scenario.workers < 3) {
    ++scenario.workers;
    scenario.rows.push_back(9);
  }
  scenario.hashed = 5;
  scenario.training.set_l2(0);
  scenario.training.mutable_update()->set_kind(Training::Update::GRADIENT);
  scenario.training.mutable_optimizer()->set_kind(Training::Optimizer::SGD);
}

// Tells a worker that has to repeat an update something else than what it learnt from.
class ChangesTheAnswerOfTheClockBefore : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  virtual Status Change(Weights& message) const = 0;

  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) final {
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    for (OutgoingRecord& answer : out) {
      Weights message;
      if (!message.ParseFromString(answer.value.substr(2)) || !message.replaced()) continue;
      MILLRACE_RETURN_IF_ERROR(Change(message));
      answer.value = FrameOf(message);
    }
    return absl::OkStatus();
  }
};

class AnswersTheClockBeforeByThePresent final : public ChangesTheAnswerOfTheClockBefore {
 public:
  using ChangesTheAnswerOfTheClockBefore::ChangesTheAnswerOfTheClockBefore;

 protected:
  Status Change(Weights& message) const override {
    const std::span<const float> now = task().processor().shard().weights();
    message.mutable_slice()->mutable_dense()->Assign(now.begin(), now.end());
    return absl::OkStatus();
  }
};

class AnswersRowsOfTheClockBeforeByThePresent final : public ChangesTheAnswerOfTheClockBefore {
 public:
  using ChangesTheAnswerOfTheClockBefore::ChangesTheAnswerOfTheClockBefore;

 protected:
  Status Change(Weights& message) const override {
    const auto& ids = message.embeddings().id();
    std::vector<float> now(static_cast<size_t>(message.embeddings().value_size()));
    MILLRACE_RETURN_IF_ERROR(
        task().processor().ReadEmbeddings(std::vector<EmbeddingId>(ids.begin(), ids.end()), now));
    message.mutable_embeddings()->mutable_value()->Assign(now.begin(), now.end());
    return absl::OkStatus();
  }
};

// What it was of is not given back. (Most blocks come again with the next step, but not all
// checkpoints have one between them.)
template <auto kField>
class ForgetsOfAFailedCheckpoint final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                        const Status& result) override {
    Checkpoint without = checkpoint;
    if (!result.ok()) without.*kField = {};
    return ServerHost::Finish(without, result);
  }
};

class FencesTooLate final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  bool FencesFirst() const override { return false; }
};

// Tries again, as if it had been an accident.
class RepeatsWhatIsRefusedForGood final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                        const Status& result) override {
    if (!IsPermanent(result)) return ServerHost::Finish(checkpoint, result);
    return ServerHost::Finish(checkpoint, absl::AbortedError(result.message()));
  }
};

// The next checkpoint has what the log may have already.
class TakesSilenceForAnAbort final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    StatusOr<bool> last = ServerHost::StepRun(checkpoint);
    if (!absl::IsDeadlineExceeded(last.status())) return last;
    ForgetTransaction();
    return absl::AbortedError(last.status().message());
  }
};

// The topic has the checkpoint, so it may seem to be safe.
class GoesOnWithoutItsDisk final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    StatusOr<bool> last = ServerHost::StepRun(checkpoint);
    return absl::IsResourceExhausted(last.status()) ? StatusOr<bool>(true) : last;
  }
};

// The disk has what `parameters` may never get.
class StoresBeforeItCommits final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    switch (step_++ % 3) {
      case 0: {
        WriteBatch batch;
        checkpoint.VisitRecords(0, [&batch](std::string_view key, std::string_view value) {
          batch.Put(std::string(key), std::string(value));
          return true;
        });
        const Offset end = world_.log.End(Topic::kParameters, static_cast<int32_t>(shard()));
        batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(end)));
        MILLRACE_RETURN_IF_ERROR(store().Write(batch));
        MILLRACE_RETURN_IF_ERROR(store().Flush());
        return false;
      }
      case 1: {
        const StatusOr<Offset> end = log().CommitTransaction(checkpoint, 0);
        if (!end.ok()) step_ = 0;
        return end.ok() ? StatusOr<bool>(false) : end.status();
      }
      default:
        (void)log().TrimGradients(std::max<Offset>(checkpoint.position - 1, 0));
        return true;
    }
  }

 private:
  int step_ = 0;
};

class TrimsBeforeItCommits final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    if (!trimmed_) {
      (void)log().TrimGradients(std::max<Offset>(checkpoint.position - 1, 0));
      trimmed_ = true;
      return false;
    }
    trimmed_ = false;
    MILLRACE_RETURN_IF_ERROR(log().CommitTransaction(checkpoint, 0).status());
    return true;
  }

 private:
  bool trimmed_ = false;
};

// Wraps the log of checkpoints.
class WrongLog : public CheckpointLog {
 public:
  explicit WrongLog(std::unique_ptr<CheckpointLog> right) : right_(std::move(right)) {}
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) override {
    return right_->CommitTransaction(checkpoint, behind);
  }
  Status TrimGradients(Offset position) override { return right_->TrimGradients(position); }

 protected:
  CheckpointLog& right() { return *right_; }

 private:
  std::unique_ptr<CheckpointLog> right_;
};

bool IsState(const Checkpoint::Entry& entry) { return entry.key.starts_with(kStateKeyPrefix); }

class PositionApart final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) override {
    Checkpoint blocks = checkpoint;
    Checkpoint state = checkpoint;
    std::erase_if(blocks.entries, [](const auto& entry) { return IsState(entry); });
    std::erase_if(state.entries, [](const auto& entry) { return !IsState(entry); });
    state.rows = {};
    blocks.dead_letters.clear();
    if (blocks.records() > 0) {
      MILLRACE_RETURN_IF_ERROR(right().CommitTransaction(blocks, behind).status());
    }
    return right().CommitTransaction(state, behind);
  }
};

// Changes the state that is written.
class OtherState : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      if (!IsState(entry)) continue;
      StatusOr<ShardState> state = DecodeState(entry.value.substr(2));
      if (!state.ok()) continue;
      Change(*state);
      MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, EncodeState(*state));
      entry.value = MakeFrames(pieces, 0).front();
    }
    return right().CommitTransaction(other, behind);
  }

 protected:
  virtual void Change(ShardState& state) = 0;
};

// A large state whose last piece is left out.
class WithoutTheLastPiece final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      if (!IsState(entry)) continue;
      const std::string body = entry.value.substr(2);
      const uint64_t first = 8 + DecodeBigEndian64(body.substr(0, 8)).value_or(0);
      if (first < body.size()) entry.value = MakeFrames(body.substr(0, first), 0).front();
    }
    return right().CommitTransaction(other, behind);
  }
};

class WithoutHeldUpdates final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override {
    for (ShardState::Member& member : *state.mutable_members()) member.clear_pending();
  }
};

class WithoutReplacedRows final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.mutable_previous_round()->clear_embeddings(); }
};

class WithoutWhatTheLastRoundReplaced final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      ParameterBlock block;
      if (!ParameterShard::IsBlockKey(entry.key)) continue;
      if (!block.ParseFromString(entry.value.substr(2))) continue;
      *block.mutable_replaced() = block.weights();
      entry.value = FrameOf(block);
    }
    return right().CommitTransaction(other, behind);
  }
};

class PositionOneTooFar final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.set_position(state.position() + 1); }
};

class TrimsOneTooFar final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  // The port is called with the record in front of the position.
  Status TrimGradients(Offset position) override {
    const Status status = right().TrimGradients(position + 2);
    return absl::IsOutOfRange(status) ? right().TrimGradients(position) : status;
  }
};

template <class Wrapper>
class WithLog final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  std::unique_ptr<CheckpointLog> MakeLog() override {
    return std::make_unique<Wrapper>(ServerHost::MakeLog());
  }
};

class CommitsOneRowTooFar final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  std::optional<InputPosition> PositionToCommit(
      const WorkerTask& task, std::optional<InputPosition> position) const override {
    if (position && !task.ended()) *position = {position->offset + 1, position->row + 1};
    return position;
  }
};

// A reader that was held back once reads no more.
class HoldsForEver final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  bool Obeys(bool hold) const override { return hold; }
};

// Takes the topic that it finds for its own.
class ReadsAnotherTopic final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  Status CheckGone(const Hosted&, WorkerFeed::Range) const override { return absl::OkStatus(); }
};

// A lost shard is not told which rows are there no more.
class DoesNotSayWhichRowsAreGone final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& records) const override {
    for (OutgoingRecord& record : records) {
      Gradient message;
      if (record.topic != Topic::kGradients || !message.ParseFromString(record.value.substr(2)) ||
          !message.has_restore()) {
        continue;
      }
      message.mutable_restore()->clear_committed_row();
      message.mutable_restore()->clear_least_clock();
      record.value = FrameOf(message);
    }
  }
};

// Of the reports to a lost shard those of newer weights come without them.
class PrefersOldWeights final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    Gradient message;
    const bool is_report = record.value.size() > 2 && record.value[1] == 0 &&
                           message.ParseFromString(std::string(record.value.substr(2))) &&
                           message.restore().has_slice();
    if (!is_report || !task().processor().state_lost()) return ServerHost::Fold(record, out);
    oldest_ = std::min(oldest_, message.clock());
    if (message.clock() == oldest_) return ServerHost::Fold(record, out);
    message.mutable_restore()->clear_slice();
    const std::string value = FrameOf(message);
    GradientRecord altered = record;
    altered.value = value;
    return ServerHost::Fold(altered, out);
  }

 private:
  uint64_t oldest_ = UINT64_MAX;
};

void LostShards(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  DrawLostCopies(scenario, faults);
  faults.rate = std::max(faults.rate, 0.02);
  faults.checkpoints = std::max(faults.checkpoints, 0.08);
}

// What the optimizer has gathered is not taken along.
class StartsWithoutOptimizerState final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot snapshot = ServerHost::Start();
    for (auto& [shard, part] : snapshot.parts) part.slots.clear();
    return snapshot;
  }
};

// Looks for its embedding rows in the part of its own number only.
class StartsWithRowsOfOnePart final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot snapshot = ServerHost::Start();
    for (auto& [of, part] : snapshot.parts) {
      if (of != shard()) part.rows.clear();
    }
    return snapshot;
  }
};

// Begins now and then with nothing kept back, as a worker does that is started anew.
class ForgetsWhatItKeptBack final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;
  bool Step() override {
    for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
      if (!Has(worker) || !world_.random.Chance(0.02)) continue;
      Revoke(worker, true);
      --world_.next_attempt;  // it looks like the same task
      Assign(worker);
    }
    return WorkerHost::Step();
  }
};

void TopK(Scenario& scenario, Faults& faults) {
  SequentialShards(scenario, faults);
  scenario.training.set_schedule(Training::ONE_PASS);
  scenario.training.mutable_update()->set_kind(Training::Update::GRADIENT);
  scenario.training.mutable_compression()->set_top_k(0.3);
  faults.workers = false;
  faults.strangers = false;
}

// Every shard hears of the cut, but shard 1 of another one.
class TellsOneShardALaterCut final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& records) const override {
    for (OutgoingRecord& record : records) {
      if (record.topic != Topic::kGradients || record.partition != 1) continue;
      std::optional<Gradient> update = UpdateIn(record.value);
      if (!update || update->update().mark().snapshot() == 0) continue;
      SnapshotMark& mark = *update->mutable_update()->mutable_mark();
      mark.set_cut(mark.cut() + 1);
      record.value = FrameOf(*update);
    }
  }
};

// A shard that hears of the cut when it is past: what should be held is in its part.
class LetsALaterUpdateThrough final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (shard() == 0 || update.clock() + 1 != update.update().mark().cut()) return false;
    update.mutable_update()->clear_mark();
    return true;
  }
};

void SnapshotsOfShards(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.shards = std::max(scenario.shards, 2u);
  faults.snapshots = 0.02;
  faults.strangers = false;
}

// Applies each second checkpoint after the one that follows it.
class AppliesOutOfOrder final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    if (!held_) {
      held_ = std::move(part);
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(ReplicaHost::Apply(std::move(part)));
    return ReplicaHost::Apply(*std::exchange(held_, std::nullopt));
  }

 private:
  std::optional<CheckpointAssembler::Part> held_;
};

// Has the first records of each checkpoint take effect after its last one: the rest is there, and
// says that all of it is.
class AppliesAPartOfACheckpoint final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    std::vector<Checkpoint::Entry> late = std::exchange(late_, {});
    std::ranges::move(part.entries, std::back_inserter(late));
    part.entries = std::move(late);
    const bool has_more = part.entries.size() > 1;
    if (has_more) {
      late_.push_back(std::move(part.entries.front()));
      part.entries.erase(part.entries.begin());
    }
    return ReplicaHost::Apply(std::move(part));
  }

 private:
  std::vector<Checkpoint::Entry> late_;
};

// Goes on without what its disk has refused.
class GoesOnWithoutWhatIsRefused final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    const Status applied = ReplicaHost::Apply(std::move(part));
    return absl::IsResourceExhausted(applied) ? absl::OkStatus() : applied;
  }
};

// Its offset is that of now, its rows are those of a moment ago.
class GivesACopyAheadOfItsRows final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;
  std::shared_ptr<Disk> Copy() const override {
    if (before_ == nullptr) return ReplicaHost::Copy();
    std::shared_ptr<Disk> copy = CopyOf(*before_);
    WriteBatch batch;
    batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(offset_)));
    MILLRACE_CHECK(copy->map->Write(batch).ok());
    return copy;
  }

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    if (part.end) {
      before_ = ReplicaHost::Copy();
      offset_ = *part.end;
    }
    return ReplicaHost::Apply(std::move(part));
  }

 private:
  std::shared_ptr<Disk> before_;
  Offset offset_ = 0;
};

}  // namespace

std::vector<PlantedError> PlantedErrors() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<ForgetsDeduplication>("a dropped deduplication", 20, WholeMessages));
  errors.push_back(
      InServer<WithLog<PositionApart>>("a position written apart from the state", 20, Unchanged));
  errors.push_back(
      InServer<WithLog<PositionOneTooFar>>("a position one too far", 20, WholeMessages));
  errors.push_back(InServer<WithLog<WithoutHeldUpdates>>(
      "a checkpoint without the updates that are held", 20, Sequential));
  errors.push_back(InServer<WithLog<WithoutTheLastPiece>>(
      "a large state without its last piece", 50, [](Scenario& scenario, Faults& faults) {
        Sequential(scenario, faults);
        while (scenario.workers < 5) {
          ++scenario.workers;
          scenario.rows.push_back(9);
        }
        scenario.most_message_bytes = SmallMessageBytes(scenario);
      }));
  errors.push_back(InServer<ForgetsAnnouncement>("a forgotten announcement", 20, WithoutTimer));
  errors.push_back(
      InServer<DropsInSilence>("a repeat that is dropped in silence", 200, WithoutTimer));
  errors.push_back(
      InServer<ReleasesOneTooFar>("a bound off by one", 50, [](Scenario& scenario, Faults&) {
        Training::Consistency& consistency = *scenario.training.mutable_consistency();
        consistency.set_model(Training::Consistency::BOUNDED);
        consistency.set_max_delay(std::max<uint64_t>(consistency.max_delay(), 1));
      }));
  errors.push_back(InServer<StoresBeforeItCommits>(
      "a checkpoint that is stored before it is committed", 200, Unchanged));
  errors.push_back(InServer<TakesSilenceForAnAbort>(
      "a commit without an answer that is taken for an abort", 100, Unchanged));
  errors.push_back(InServer<RepeatsWhatIsRefusedForGood>(
      "a checkpoint that is refused for good and tried again", 200, Unchanged));
  errors.push_back(
      InServer<GoesOnWithoutItsDisk>("a server that goes on without what its disk has refused", 100,
                                     [](Scenario&, Faults& faults) {
                                       faults.disk_errors = 0.1;
                                       faults.checkpoints = std::max(faults.checkpoints, 0.08);
                                     }));
  errors.push_back(InServer<TrimsBeforeItCommits>(
      "a log that is trimmed before the checkpoint is committed", 200, Unchanged));
  errors.push_back(
      InServer<WithLog<TrimsOneTooFar>>("a log that is trimmed too far", 50, Unchanged));
  errors.push_back(InServer<FencesTooLate>("fencing after reading", 500, Unchanged));
  errors.push_back(InServer<CombinesInArrivalOrder>("a round combined in arrival order", 20,
                                                    SequentialSgdOfThree));
  errors.push_back(InServer<AnswersTheClockBeforeByThePresent>(
      "a torn restart answered by the present weights", 50, SequentialShards));
  errors.push_back(InServer<WithLog<WithoutWhatTheLastRoundReplaced>>(
      "a checkpoint without what the last round replaced", 20, SequentialShards));
  errors.push_back(InServer<AnswersRowsOfTheClockBeforeByThePresent>(
      "a torn restart answered by the present embedding rows", 100, SequentialEmbeddings));
  errors.push_back(InServer<WithLog<WithoutReplacedRows>>(
      "a checkpoint without the embedding rows that the last round replaced", 500,
      SequentialEmbeddings));
  errors.push_back(
      InServer<LosesARow>("a step of an embedding row that is lost", 20, EventualEmbeddings));
  errors.push_back(InServer<StepsRowsTwice>("a step of embedding rows that is made twice", 20,
                                            EventualEmbeddings));
  errors.push_back(InServer<ForgetsOfAFailedCheckpoint<&Checkpoint::rows>>(
      "an aborted checkpoint whose embedding rows are forgotten", 200, SequentialEmbeddings));
  errors.push_back(InServer<ForgetsOfAFailedCheckpoint<&Checkpoint::blocks>>(
      "an aborted checkpoint whose blocks are forgotten", 200, Unchanged));
  errors.push_back(InServer<DoubtsTheTime>("a clock that jumps and is not believed", 20,
                                           [](Scenario& scenario, Faults& faults) {
                                             EventualEmbeddings(scenario, faults);
                                             faults.clock_jumps = true;
                                           }));
  errors.push_back(InServer<AppliesPoison>("poison that is applied", 100,
                                           [](Scenario& scenario, Faults& faults) {
                                             WholeMessages(scenario, faults);
                                             faults.strangers = true;
                                           }));
  errors.push_back(
      InFollower<AppliesOutOfOrder>("a replica that takes checkpoints out of order", 10));
  errors.push_back(InFollower<AppliesAPartOfACheckpoint>(
      "a replica that has the end of a checkpoint before all of it", 10));
  errors.push_back(InFollower<GivesACopyAheadOfItsRows>(
      "a copy of a replica whose offset is ahead of its rows", 20));
  errors.push_back(
      InWorker<ForgetsWhatItKeptBack>("a worker that forgets what it kept back", 10, TopK));
  errors.push_back(InWorker<HoldsForEver>("a reader that is held back for ever", 20,
                                          [](Scenario& scenario, Faults&) {
                                            scenario.training.set_schedule(Training::ONE_PASS);
                                            scenario.training.set_batch_rows(1);
                                          }));
  errors.push_back(InWorker<TellsOneShardALaterCut>("a cut that is one clock too late on one shard",
                                                    10, SnapshotsOfShards));
  errors.push_back(InServerAtCuts<LetsALaterUpdateThrough>("an update that is let through a cut",
                                                           10, SnapshotsOfShards));
  errors.push_back(InFollower<GoesOnWithoutWhatIsRefused>(
      "a follower that goes on without what its disk has refused", 100));
  errors.push_back(InWorker<DoesNotSayWhichRowsAreGone>(
      "a lost shard that is not told which rows are gone", 500, LostShards));
  errors.push_back(
      InServer<PrefersOldWeights>("a lost shard that goes on from older weights", 300, LostShards));
  const auto continues = [](Scenario& scenario, Faults& faults) {
    EventualEmbeddings(scenario, faults);
    DrawContinuation(faults);
  };
  errors.push_back(InServerAtCuts<StartsWithoutOptimizerState>(
      "a start from a snapshot without the optimizer's state", 20, continues));
  errors.push_back(InServerAtCuts<StartsWithRowsOfOnePart>(
      "a start on other shards with the embedding rows of one part", 20, continues));
  errors.push_back(
      InWorker<ReadsAnotherTopic>("a worker that takes another topic for its own", 50, Losses));
  errors.push_back(InServer<StartsWhereverTheLogIs>(
      "a server that starts wherever the log begins or ends", 50, Losses));
  errors.push_back(InServer<DoesNotRecogniseItsLog>("a server that does not recognise another log",
                                                    100, Losses));
  errors.push_back(InServer<TrustsItsCopy>("a copy of a topic that was recreated", 300, Losses));
  errors.push_back(InServer<BelievesAClockToCome>("an update of a clock to come that is taken", 50,
                                                  [](Scenario& scenario, Faults& faults) {
                                                    WholeMessages(scenario, faults);
                                                    faults.strangers = true;
                                                  }));
  errors.push_back(InServerAtCuts<ReadsOnBehindACut>(
      "records that are passed over at a cut and not read again", 20, SnapshotsOfShards));
  errors.push_back(InServerAtCuts<AnnouncesAtACut>(
      "answers that are made at a cut", 50, [](Scenario& scenario, Faults& faults) {
        SnapshotsOfShards(scenario, faults);
        scenario.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
      }));
  errors.push_back(InWorker<CommitsOneRowTooFar>(
      "a commit one row too far", 50,
      [](Scenario& scenario, Faults&) { scenario.training.set_schedule(Training::ONE_PASS); }));
  return errors;
}

}  // namespace millrace::simulation
