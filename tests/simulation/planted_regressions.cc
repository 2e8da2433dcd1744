// Errors where a number is estimated: of the targets so far, and of how far predictions were off.
#include <algorithm>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// kAlter(update); false: as it came.
template <bool (*kAlter)(Gradient&)>
class Alters final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override { return kAlter(update); }
};

bool LosesTheTargets(Gradient& update) {
  MomentsMessage& moments = *update.mutable_update()->mutable_moments();
  if (moments.target_count() == 0) return false;
  moments.clear_target_count();
  moments.clear_target_mean();
  moments.clear_target_m2();
  return true;
}

bool LosesTheErrors(Gradient& update) {
  MomentsMessage& moments = *update.mutable_update()->mutable_moments();
  if (moments.error_count() == 0) return false;
  moments.clear_error_count();
  moments.clear_error_mean();
  moments.clear_range_votes();
  return true;
}

bool LosesTheVotesForTheRange(Gradient& update) {
  MomentsMessage& moments = *update.mutable_update()->mutable_moments();
  if (moments.range_votes() == 0) return false;
  moments.clear_range_votes();
  return true;
}

bool LosesWhatWasNotPredicted(Gradient& update) {
  EvaluationSumsMessage& sums = *update.mutable_update()->mutable_progressive();
  if (sums.unpredicted() == 0) return false;
  sums.clear_unpredicted();
  return true;
}

// Says something else of its rows than what they are: kSay(update).
template <void (*kSay)(Gradient::Update&)>
class Says final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& out) const override {
    for (OutgoingRecord& record : out) {
      if (record.topic != Topic::kGradients) continue;
      std::optional<Gradient> message = UpdateIn(record.value);
      if (!message) continue;
      kSay(*message->mutable_update());
      record.value = FrameOf(*message);
    }
  }
};

// Its first row would be predicted by itself.
void PredictsByItsOwnTargets(Gradient::Update& update) {
  EvaluationSumsMessage& sums = *update.mutable_progressive();
  sums.set_absolute_rows(sums.absolute_rows() + sums.unpredicted());
  sums.clear_unpredicted();
}

void CountsATargetTwice(Gradient::Update& update) {
  MomentsMessage& moments = *update.mutable_moments();
  if (moments.target_count() > 0) moments.set_target_count(moments.target_count() + 1);
}

void WidensTheRange(Gradient::Update& update) {
  MomentsMessage& moments = *update.mutable_moments();
  if (moments.target_count() > 0) moments.set_target_most(moments.target_most() + 1);
}

void ForgetsHowFarItWasOff(Gradient::Update& update) {
  update.mutable_moments()->set_error_mean(update.moments().error_mean() / 2);
}

}  // namespace

void Regression(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.regression = true;
  scenario.classes = 0;
  scenario.ids = 0;
  scenario.wide = false;
  scenario.rows[0] = std::max(scenario.rows[0], RowNumber(9));
  Training& training = scenario.training;
  training.set_model(Training::SOFTMAX);
  training.clear_hidden();
  training.clear_wide_above();
  training.clear_class_weight();
  training.clear_freeze_after_rows();
  training.clear_tail_after_rows();
  training.set_schedule(Training::ONE_PASS);
  training.set_scaling(Training::RUNNING);
  training.set_loss(Training::HUBER);
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
}

std::vector<PlantedError> PlantedInRegressions() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<Alters<LosesTheTargets>>("a server that loses the targets of updates",
                                                     5, Regression));
  errors.push_back(InServer<Alters<LosesTheErrors>>("a server that loses the errors of predictions",
                                                    5, Regression));
  errors.push_back(InServer<Alters<LosesTheVotesForTheRange>>(
      "a server that loses the votes for the range of targets", 5, Regression));
  errors.push_back(InServer<Alters<LosesWhatWasNotPredicted>>(
      "a server that takes a row without a prediction for one with it", 5, Regression));
  errors.push_back(InWorker<Says<PredictsByItsOwnTargets>>(
      "a worker that predicts its first row by its own target", 5, Regression));
  errors.push_back(
      InWorker<Says<CountsATargetTwice>>("a worker that counts a target twice", 5, Regression));
  errors.push_back(InWorker<Says<WidensTheRange>>(
      "a worker whose range of targets is wider than its rows'", 5, Regression));
  errors.push_back(InWorker<Says<ForgetsHowFarItWasOff>>(
      "a worker that forgets a part of how far it was off", 5, Regression));
  return errors;
}

}  // namespace millrace::simulation
