// Errors of workers.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

class CommitsOneRowTooFar final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  std::optional<InputPosition> PositionToCommit(
      const WorkerTask& task, std::optional<InputPosition> position) const override {
    if (position && !task.ended())
      *position = {position->offset + 1, position->row + 1, position->clock};
    return position;
  }
};

// Takes the record that has the first needed row for used up, of which only some rows are.
class CommitsBehindARecordThatItIsWithin final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  std::optional<InputPosition> PositionToCommit(
      const WorkerTask& task, std::optional<InputPosition> position) const override {
    const LogRecord* const record = position ? RecordAround(task.worker(), *position) : nullptr;
    if (record != nullptr) position->offset = record->offset + 1;
    return position;
  }
};

// What all workers read it reads from behind the end, so that it misses the next record.
class MissesASharedRecord final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  Offset FirstShared() const override { return WorkerHost::FirstShared() + 1; }
};

// A reader that was held back once reads no more.
class HoldsForEver final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  bool Obeys(bool hold) const override { return hold; }
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

// The reader has been there before, and is not told to go elsewhere.
class ReadsOnWhereItStood final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Revoked(WorkerId worker, Hosted hosted) override { stood_[worker] = hosted.next_row; }
  void Assigned(WorkerId worker, Hosted& hosted) override {
    const auto found = stood_.find(worker);
    if (found != stood_.end()) hosted.next_row = std::max(hosted.next_row, found->second);
  }

 private:
  std::map<WorkerId, Offset> stood_;
};

// A task outlives the revocation, and is there when the partition comes back.
class KeepsTheTask final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Revoked(WorkerId worker, Hosted hosted) override {
    kept_.insert_or_assign(worker, std::move(hosted));
  }
  void Assigned(WorkerId worker, Hosted& hosted) override {
    const auto found = kept_.find(worker);
    if (found == kept_.end()) return;
    hosted.task = std::move(found->second.task);
    hosted.feed = found->second.feed;
    kept_.erase(found);
  }

 private:
  std::map<WorkerId, Hosted> kept_;
};

// What it has in flight it does not count as delay.
using BeginsBeyondTheBound = WithOtherOptions<[](WorkerId, WorkerOptions& options) {
  options.training.mutable_consistency()->set_max_delay(100);
}>;

using HasTooManyInFlight =
    WithOtherOptions<[](WorkerId, WorkerOptions& options) { ++options.pipeline; }>;

// Says again only the newest of several that are in flight.
class RepeatsTheLastOnly final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& out) const override {
    if (out.size() > 1) out.erase(out.begin(), out.end() - 1);
  }
};

// A batch that has begun waits for further rows.
using EndsNoBatchAtAFlush = WithOtherOptions<[](WorkerId, WorkerOptions& options) {
  options.training.set_batch_wait_s(0);
}>;

// Takes whatever says that it has left for a reply to what it has asked last.
class BelievesThatItHasLeft final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& out) const override {
    for (const OutgoingRecord& record : out) {
      Gradient message;
      if (record.topic != Topic::kGradients || record.value.size() < 2) continue;
      if (record.value[1] == 0 && message.ParseFromString(record.value.substr(2))) {
        last_number_[WorkerId(message.worker())] = message.number();
      }
    }
  }
  std::string ReadOf(WorkerId worker, const std::string& weights) const override {
    Weights message;
    const bool is_whole = weights.size() >= 2 && weights[1] == 0 &&
                          message.ParseFromString(weights.substr(2)) && message.left();
    if (!is_whole) return weights;
    message.set_answers_to(last_number_[worker]);
    return FrameOf(message);
  }

 private:
  mutable std::map<WorkerId, uint64_t> last_number_;
};

void Flushed(Scenario& scenario, Faults&) {
  scenario.flushes = true;
  scenario.training.set_schedule(Training::ONE_PASS);
  scenario.training.set_batch_rows(4);
  scenario.training.set_batch_wait_s(1);
}

void Pipelined(Scenario& scenario, Faults&) {
  Training& training = scenario.training;
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.shards = 1;
  training.set_schedule(Training::ONE_PASS);
  training.set_batch_rows(1);
  training.mutable_consistency()->set_model(Training::Consistency::BOUNDED);
  training.mutable_consistency()->set_max_delay(2);
  training.set_pipeline(3);
}

// (The bound of a bounded job would hold them back.)
void PipelinedEventual(Scenario& scenario, Faults& faults) {
  Pipelined(scenario, faults);
  scenario.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
}

void TopK(Scenario& scenario, Faults& faults) {
  SequentialShards(scenario, faults);
  OfClasses(scenario);
  scenario.training.set_schedule(Training::ONE_PASS);
  scenario.training.mutable_update()->set_kind(Training::Update::GRADIENT);
  scenario.training.mutable_compression()->set_top_k(0.3);
  faults.workers = false;
  faults.strangers = false;
}

// Takes what it has sent by a stream for delivered, when the stream has broken.
class ForgetsWhatAStreamHad final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  void AnswerAgain(std::span<const WorkerId>) override {}
};

}  // namespace

std::vector<PlantedError> PlantedInWorkers() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<ForgetsWhatAStreamHad>("answers that are lost with a stream", 50,
                                                   [](Scenario& scenario, Faults& faults) {
                                                     Sequential(scenario, faults);
                                                     WithoutTimer(scenario, faults);
                                                     scenario.direct = true;
                                                   }));
  errors.push_back(
      InWorker<ForgetsWhatItKeptBack>("a worker that forgets what it kept back", 10, TopK));
  errors.push_back(InWorker<MissesASharedRecord>("a shared record that is missed", 20,
                                                 [](Scenario& scenario, Faults& faults) {
                                                   Sequential(scenario, faults);
                                                   WithoutTimer(scenario, faults);
                                                 }));
  errors.push_back(InWorker<HoldsForEver>("a reader that is held back for ever", 20,
                                          [](Scenario& scenario, Faults&) {
                                            scenario.training.set_schedule(Training::ONE_PASS);
                                            scenario.training.set_batch_rows(1);
                                          }));
  errors.push_back(InWorker<CommitsOneRowTooFar>(
      "a commit one row too far", 50,
      [](Scenario& scenario, Faults&) { scenario.training.set_schedule(Training::ONE_PASS); }));
  errors.push_back(InWorker<BeginsBeyondTheBound>(
      "a worker that does not count its updates in flight as delay", 20, Pipelined));
  errors.push_back(InWorker<HasTooManyInFlight>("a worker of too many updates in flight", 20,
                                                PipelinedEventual));
  errors.push_back(InWorker<RepeatsTheLastOnly>(
      "a worker that sends only the last of several updates", 20, Pipelined));
  errors.push_back(InWorker<CommitsBehindARecordThatItIsWithin>(
      "a commit behind a record of which rows are needed", 50,
      [](Scenario& scenario, Faults&) { scenario.training.set_schedule(Training::ONE_PASS); }));
  errors.push_back(InWorker<BelievesThatItHasLeft>(
      "a worker that believes whoever says that it has left", 50, WholeMessages));
  errors.push_back(
      InWorker<EndsNoBatchAtAFlush>("a worker that waits behind a flush", 20, Flushed));
  errors.push_back(InWorker<ReadsOnWhereItStood>(
      "an assigned partition that is read from where its reader stood", 100, Unchanged));
  errors.push_back(InWorker<KeepsTheTask>(
      "a revoked partition that its task serves when it comes back", 200, Unchanged));
  return errors;
}

}  // namespace millrace::simulation
