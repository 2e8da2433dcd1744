// Errors where workers come, leave and come again while a job runs.
#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// A shard behind the first hears of no change, so that it is carried out by one shard only.
class HearsOfNoChange final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (shard() == 0 || update.update().resize() == 0) return false;
    update.mutable_update()->clear_resize();
    return true;
  }
};

// Takes the leave of a worker's life before, which has gone on to the clock of this one.
class TakesLeavesOfAnyLife final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    Gradient message;
    const bool is_whole = record.value.size() > 2 && record.value[1] == 0 &&
                          message.ParseFromString(std::string(record.value.substr(2)));
    if (!is_whole || !message.has_leave()) return ServerHost::Fold(record, out);
    message.set_joined(task().processor().joined(WorkerId(message.worker())));
    const std::string value = FrameOf(message);
    GradientRecord altered = record;
    altered.value = value;
    return ServerHost::Fold(altered, out);
  }
};

// Leaves without a word of who has joined.
class TellsOfNobody final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& out) const override {
    for (OutgoingRecord& record : out) {
      Gradient message;
      const bool is_whole = record.topic == Topic::kGradients && record.value.size() > 2 &&
                            message.ParseFromString(record.value.substr(2));
      if (!is_whole || message.leave().joined().empty()) continue;
      message.mutable_leave()->clear_joined();
      record.value = FrameOf(message);
    }
  }
};

// On several shards.
template <Training::Consistency::Model kModel>
void Changing(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.training.mutable_consistency()->set_model(kModel);
  scenario.shards = 3;
  DrawResizes(scenario, faults);
}

}  // namespace

std::vector<PlantedError> PlantedInResizes() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<HearsOfNoChange>("a change of the workers that one shard carries out",
                                             20, Changing<Training::Consistency::SEQUENTIAL>));
  errors.push_back(InServer<TakesLeavesOfAnyLife>("a leave of a worker that has joined again since",
                                                  500, Changing<Training::Consistency::EVENTUAL>));
  errors.push_back(InWorker<TellsOfNobody>("a leave that does not say who has joined", 500,
                                           Changing<Training::Consistency::EVENTUAL>));
  return errors;
}

}  // namespace millrace::simulation
