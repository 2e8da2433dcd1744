// Errors in checkpoints: what they hold, and in which order they become durable.
#include <algorithm>
#include <utility>

#include "base/big_endian.h"
#include "tasks/state_codec.h"
#include "tests/simulation/planted_shapes.h"
#include "topics/frame.h"

namespace millrace::simulation {
namespace {

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

// The topic has the checkpoint, so it may seem to be safe.
class GoesOnWithoutItsDisk final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    StatusOr<bool> last = ServerHost::StepRun(checkpoint);
    if (!absl::IsResourceExhausted(last.status())) return last;
    ForgetTransaction();  // one that its disk has interrupted
    return true;
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

// The rows of a checkpoint are the most of it, but not the last.
class CountsWithItsRows final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    WriteBatch batch;
    switch (step_++ % 3) {
      case 0: {
        const StatusOr<Offset> end = log().CommitTransaction(checkpoint, 0);
        if (!end.ok()) step_ = 0;
        MILLRACE_RETURN_IF_ERROR(end.status());
        end_ = *end;
        return false;
      }
      case 1:
        checkpoint.rows.Encode(0, [&batch](std::string_view key, std::string_view value) {
          batch.Put(std::string(key), std::string(value));
          return true;
        });
        batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(end_)));
        MILLRACE_RETURN_IF_ERROR(store().Write(batch));
        MILLRACE_RETURN_IF_ERROR(store().Flush());
        return false;
      default:
        for (const Checkpoint::Entry& entry : checkpoint.entries) batch.Put(entry.key, entry.value);
        MILLRACE_RETURN_IF_ERROR(store().Write(batch));
        MILLRACE_RETURN_IF_ERROR(store().Flush());
        (void)log().TrimGradients(std::max<Offset>(checkpoint.position - 1, 0));
        return true;
    }
  }

 private:
  int step_ = 0;
  Offset end_ = 0;
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
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    return right_->CommitTransaction(checkpoint, previous_end);
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
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    Checkpoint blocks = checkpoint;
    Checkpoint state = checkpoint;
    std::erase_if(blocks.entries, [](const auto& entry) { return IsState(entry); });
    std::erase_if(state.entries, [](const auto& entry) { return !IsState(entry); });
    state.rows = {};
    blocks.dead_letters.clear();
    if (blocks.records() > 0) {
      MILLRACE_RETURN_IF_ERROR(right().CommitTransaction(blocks, previous_end).status());
    }
    return right().CommitTransaction(state, previous_end);
  }
};

// Changes the state that is written.
class OtherState : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      if (!IsState(entry)) continue;
      StatusOr<ShardState> state = DecodeState(entry.value.substr(2));
      if (!state.ok()) continue;
      Change(*state);
      MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, EncodeState(*state));
      entry.value = MakeFrames(pieces, 0).front();
    }
    return right().CommitTransaction(other, previous_end);
  }

 protected:
  virtual void Change(ShardState& state) = 0;
};

// A large state whose last piece is left out.
class WithoutTheLastPiece final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      if (!IsState(entry)) continue;
      const std::string body = entry.value.substr(2);
      const uint64_t first = 8 + DecodeBigEndian64(body.substr(0, 8)).value_or(0);
      if (first < body.size()) entry.value = MakeFrames(body.substr(0, first), 0).front();
    }
    return right().CommitTransaction(other, previous_end);
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

class WithoutTheOpenWindow final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.clear_window_open(); }
};

class WithoutTheWatchForDrift final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.clear_drift(); }
};

class WithoutWhatWasForgotten final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.clear_forgotten(); }
};

class WithoutTheLastPeriod final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.clear_snapshot_steps(); }
};

class WithoutTheOrder final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override {
    state.clear_resize_ordered();
    state.clear_workers_ordered();
  }
};

class WithoutWhoHasJoined final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override {
    for (ShardState::Member& member : *state.mutable_members()) member.clear_joined();
  }
};

class WithoutTheTargets final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override {
    state.mutable_moments()->clear_target_count();
    state.mutable_moments()->clear_target_mean();
    state.mutable_moments()->clear_target_m2();
  }
};

class WithoutTheRowsOfClasses final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.mutable_moments()->clear_class_rows(); }
};

class WithoutPreviousRows final : public OtherState {
 public:
  using OtherState::OtherState;

 protected:
  void Change(ShardState& state) override { state.mutable_previous_round()->clear_embeddings(); }
};

class WithoutThePreviousRound final : public WrongLog {
 public:
  using WrongLog::WrongLog;
  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    Checkpoint other = checkpoint;
    for (Checkpoint::Entry& entry : other.entries) {
      ParameterBlock block;
      if (!ParameterShard::IsBlockKey(entry.key)) continue;
      if (!block.ParseFromString(entry.value.substr(2))) continue;
      *block.mutable_previous_round() = block.weights();
      entry.value = FrameOf(block);
    }
    return right().CommitTransaction(other, previous_end);
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
  // The port is called with the record before the position.
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

}  // namespace

std::vector<PlantedError> PlantedInCheckpoints() {
  std::vector<PlantedError> errors;
  errors.push_back(
      InServer<WithLog<PositionApart>>("a position written apart from the state", 20, Unchanged));
  errors.push_back(
      InServer<WithLog<PositionOneTooFar>>("a position one too far", 20, WholeMessages));
  errors.push_back(InServer<WithLog<WithoutTheOpenWindow>>(
      "a checkpoint without the figures' open window", 20, Unchanged));
  errors.push_back(InServer<WithLog<WithoutTheWatchForDrift>>(
      "a checkpoint without the watch for drift", 20, Unchanged));
  errors.push_back(InServer<WithLog<WithoutWhatWasForgotten>>(
      "a checkpoint without the drifts that were acted upon", 50, Forgetting));
  const auto resized = [](Scenario& scenario, Faults& faults) { DrawResizes(scenario, faults); };
  errors.push_back(InServerAtCuts<WithLog<WithoutTheLastPeriod>>(
      "a checkpoint without when a periodic snapshot was begun", 20,
      [](Scenario& scenario, Faults&) { scenario.training.set_snapshot_every(3); }));
  errors.push_back(InServer<WithLog<WithoutTheOrder>>(
      "a checkpoint without the change of the workers that was ordered", 50, resized));
  errors.push_back(InServer<WithLog<WithoutWhoHasJoined>>(
      "a checkpoint without when workers have joined", 50, resized));
  errors.push_back(InServer<WithLog<WithoutTheRowsOfClasses>>(
      "a checkpoint without the rows of classes", 20, [](Scenario& scenario, Faults&) {
        OfClasses(scenario);
        scenario.training.clear_class_weight();
        scenario.training.add_class_weight("balanced");
      }));
  errors.push_back(InServer<WithLog<WithoutTheTargets>>("a checkpoint without the targets so far",
                                                        20, Regression));
  errors.push_back(InServer<WithLog<WithoutHeldUpdates>>(
      "a checkpoint without the updates that are held", 20, Sequential));
  errors.push_back(InServer<WithLog<WithoutTheLastPiece>>(
      "a large state without its last piece", 200, [](Scenario& scenario, Faults& faults) {
        Sequential(scenario, faults);
        while (scenario.workers < 5) {
          ++scenario.workers;
          scenario.rows.push_back(9);
        }
        scenario.most_message_bytes = SmallMessageBytes(scenario);
      }));
  errors.push_back(InServer<StoresBeforeItCommits>(
      "a checkpoint that is stored before it is committed", 200, Unchanged));
  errors.push_back(InServer<CountsWithItsRows>(
      "embedding rows that count before the rest of their checkpoint is stored", 200,
      SequentialEmbeddings));
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
  errors.push_back(InServer<WithLog<WithoutThePreviousRound>>(
      "a checkpoint without what the last round replaced", 20, SequentialShards));
  errors.push_back(InServer<WithLog<WithoutPreviousRows>>(
      "a checkpoint without the embedding rows that the last round replaced", 500,
      SequentialEmbeddings));
  errors.push_back(InServer<ForgetsOfAFailedCheckpoint<&Checkpoint::rows>>(
      "an aborted checkpoint whose embedding rows are forgotten", 200, SequentialEmbeddings));
  errors.push_back(InServer<ForgetsOfAFailedCheckpoint<&Checkpoint::blocks>>(
      "an aborted checkpoint whose blocks are forgotten", 200, Unchanged));
  return errors;
}

}  // namespace millrace::simulation
