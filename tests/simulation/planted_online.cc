// Errors where updates are changes that are added up, and where rows are counted by their classes.
#include <algorithm>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Takes the changes for gradients, and steps along them: their mean is what it adds.
class DividesByTheWeight final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    options.optimizer = {.kind = OptimizerOptions::Kind::kSgd, .learning_rate = -1};
    return options;
  }
};

// Knows of the workers before it only, so that its change counts too much.
using ForgetsWhoLearnsBesideIt = WithOtherOptions<[](WorkerId worker, WorkerOptions& options) {
  options.first_workers = static_cast<uint32_t>(uint64_t{worker} + 1);
}>;

// Forgets how many rows of each class an update brings.
class LosesTheRowsOfClasses final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    MomentsMessage& moments = *update.mutable_update()->mutable_moments();
    if (moments.class_rows().empty()) return false;
    moments.clear_class_rows();
    return true;
  }
};

// Hears of no drift.
class HearsOfNoDrift final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().drifts() == 0) return false;
    update.mutable_update()->clear_drifts();
    return true;
  }
};

// Does not act on what it hears.
class ForgetsNothing final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    if (options.forgets) options.forgets = OnlineForgetting{.race = false};
    return options;
  }
};

// Does so with all but what it knows of how the numeric columns go together.
class ForgetsNoSums final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    if (options.forgets) options.forgets->newton_begin = UINT64_MAX;
    return options;
  }
};

// Neither weighs rows by their classes nor counts them.
using KnowsNoBalance =
    WithOtherOptions<[](WorkerId, WorkerOptions& options) { options.balances_classes = false; }>;

// Says of no row that it was learnt from twice.
class ForgetsWhatWasRepeated final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().repeated_end() == 0) return false;
    update.mutable_update()->clear_repeated_end();
    return true;
  }
};

// Learns from one row more at a time than it should.
using TakesMoreRowsAtOnce = WithOtherOptions<[](WorkerId, WorkerOptions& options) {
  options.training.set_batch_rows(options.training.batch_rows() + 1);
}>;

// Lets newer rows replace those that nobody has learnt from.
using LetsRowsGo = WithOtherOptions<[](WorkerId, WorkerOptions& options) {
  options.training.mutable_buffer()->set_skip_rows(true);
}>;

// A round is rows of three workers. (No row counts otherwise than by its worker's number.)
void Online(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  while (scenario.workers < 3) {
    ++scenario.workers;
    scenario.rows.push_back(9);
  }
  scenario.rows[0] = std::max(scenario.rows[0], RowNumber(9));
  scenario.ids = 0;
  Training& training = scenario.training;
  training.set_model(Training::SOFTMAX);
  training.clear_hidden();
  training.clear_optimizer();
  training.clear_l2();
  training.clear_freeze_after_rows();
  training.clear_tail_after_rows();
  training.set_schedule(Training::ONE_PASS);
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  if (scenario.most_message_bytes < kMostMessageBytes) {
    scenario.most_message_bytes = SmallMessageBytes(scenario);
  }
}

void Balanced(Scenario& scenario, Faults& faults) {
  OfClasses(scenario);
  Online(scenario, faults);
  scenario.training.clear_class_weight();
  scenario.training.add_class_weight("balanced");
}

void OnlineOnBuffer(Scenario& scenario, Faults& faults) {
  Online(scenario, faults);
  Training& training = scenario.training;
  training.set_schedule(Training::BUFFER);
  training.set_batch_rows(2);
  training.clear_rounds_after_end();
  training.mutable_buffer()->Clear();
  training.mutable_buffer()->set_min_rows(4);
  training.mutable_buffer()->set_max_rows(8);
  scenario.wide = false;
  training.clear_wide_above();
}

}  // namespace

void Forgetting(Scenario& scenario, Faults& faults) {
  Online(scenario, faults);
  for (RowNumber& rows : scenario.rows) rows = std::max(rows, RowNumber(40));
  scenario.training.set_on_drift(Training::FORGET);
}

namespace {

void WideForgetting(Scenario& scenario, Faults& faults) {
  Forgetting(scenario, faults);
  scenario.hashed = std::min<size_t>(scenario.hashed, 5);
  scenario.wide = true;
  scenario.training.set_wide_above(0);
}

}  // namespace

std::vector<PlantedError> PlantedInOnlineLearning() {
  std::vector<PlantedError> errors;
  errors.push_back(
      InServer<DividesByTheWeight>("a sum of changes that is divided by the weight", 5, Online));
  errors.push_back(
      InWorker<ForgetsWhoLearnsBesideIt>("a worker that forgets who learns beside it", 20, Online));
  errors.push_back(
      InServer<LosesTheRowsOfClasses>("a server that loses the rows of classes", 5, Balanced));
  errors.push_back(InServer<LosesTheRowsOfClasses>(
      "a server that loses what a factorization machine begins at", 5, SequentialEmbeddings));
  errors.push_back(InWorker<KnowsNoBalance>("a worker that does not balance classes", 5, Balanced));
  errors.push_back(InServer<ForgetsWhatWasRepeated>(
      "a server that forgets which rows were learnt from twice", 5, OnlineOnBuffer));
  errors.push_back(InWorker<TakesMoreRowsAtOnce>(
      "a worker whose updates have more rows of a buffer than --batch-rows", 5, OnlineOnBuffer));
  errors.push_back(InWorker<LetsRowsGo>("a worker that lets rows leave its buffer untrained", 20,
                                        OnlineOnBuffer));
  errors.push_back(InServer<HearsOfNoDrift>("a server that hears of no drift", 20, Forgetting));
  errors.push_back(InServer<ForgetsNothing>("a server that forgets nothing", 20, Forgetting));
  errors.push_back(InServer<ForgetsNoSums>(
      "a server that does not forget how the numeric columns go together", 20, Forgetting));
  errors.push_back(InServer<LosesWhatRowsHaveMissed>(
      "a server that forgets nothing of rows that are not named", 50, WideForgetting));
  return errors;
}

}  // namespace millrace::simulation
