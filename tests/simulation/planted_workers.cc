// Errors of workers.
#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

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

}  // namespace

std::vector<PlantedError> PlantedInWorkers() {
  std::vector<PlantedError> errors;
  errors.push_back(
      InWorker<ForgetsWhatItKeptBack>("a worker that forgets what it kept back", 10, TopK));
  errors.push_back(InWorker<HoldsForEver>("a reader that is held back for ever", 20,
                                          [](Scenario& scenario, Faults&) {
                                            scenario.training.set_schedule(Training::ONE_PASS);
                                            scenario.training.set_batch_rows(1);
                                          }));
  errors.push_back(InWorker<CommitsOneRowTooFar>(
      "a commit one row too far", 50,
      [](Scenario& scenario, Faults&) { scenario.training.set_schedule(Training::ONE_PASS); }));
  return errors;
}

}  // namespace millrace::simulation
