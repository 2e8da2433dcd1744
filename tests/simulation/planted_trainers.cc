// Errors where trainers of one's own keep their named parameters on the servers.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/simulation/planted_shapes.h"
#include "tests/simulation/trainer_host.h"
#include "tests/simulation/trainers.h"

namespace millrace::simulation {
namespace {

ServerProcessor& ProcessorOf(const ShardTask& task) {
  return const_cast<ServerProcessor&>(task.processor());
}

using Progress = google::protobuf::RepeatedPtrField<ParameterProgress>;

// The shard goes on from its saved state, of which `change` has changed the parameters.
void ChangeProgress(ServerProcessor& processor, const std::function<void(Progress&)>& change) {
  ShardState state;
  processor.SaveState(state);
  change(*state.mutable_parameters());
  MILLRACE_CHECK(processor.LoadState(state).ok());
}

// The put of the second trainer overwrites that of the first.
class LetsLaterPutsCount final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::optional<Gradient> update = UpdateIn(record.value);
    if (update && !update->update().put().empty()) {
      ChangeProgress(ProcessorOf(task()), [&](Progress& progress) {
        progress.erase(std::remove_if(progress.begin(), progress.end(),
                                      [&](const ParameterProgress& parameter) {
                                        return std::ranges::any_of(
                                            update->update().put(), [&](const ParameterPart& put) {
                                              return put.parameter() == parameter.parameter();
                                            });
                                      }),
                       progress.end());
      });
    }
    return ServerHost::Fold(record, out);
  }
};

// What an update changes, it changes twice.
class StepsTwice final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().part().empty()) return false;
    for (ParameterPart& part : *update.mutable_update()->mutable_part()) {
      for (float& value : *part.mutable_value()) value *= 2;
    }
    return true;
  }
};

// What an update says of a row counts twice.
class CountsRowsTwice final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().embeddings().value().empty()) return false;
    for (float& value : *update.mutable_update()->mutable_embeddings()->mutable_value()) value *= 2;
    return true;
  }
};

// A step counts for a table only in the shards that have rows of it.
class CountsStepsOfItsRowsOnly final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    std::set<uint32_t> here;
    for (const EmbeddingId row : update.update().embeddings().id()) {
      here.insert(TableParameterOf(world_.scenario, row));
    }
    auto& tables = *update.mutable_update()->mutable_table();
    if (static_cast<size_t>(tables.size()) == here.size()) return false;
    tables.Assign(here.begin(), here.end());
    return true;
  }
};

// When it starts again it does not find the rows that it has saved.
class LosesRowsAtAKill final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    const bool is_later = world_.log.Begin(Topic::kGradients, static_cast<int32_t>(shard())) > 0;
    if (is_later && options.embeddings) options.embeddings->table = 1;
    return options;
  }
};

// What a shard has when it starts on a checkpoint lacks something: kForget(processor, options).
template <auto kForget>
class StartsWithout final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status StartReplay(Offset begin, Offset end) override {
    kForget(ProcessorOf(task()));
    return ServerHost::StartReplay(begin, end);
  }
};

using StartsWithoutSlots = StartsWithout<[](ServerProcessor& processor) {
  std::ranges::fill(processor.mutable_shard().mutable_slots(), 0.0f);
}>;
using StartsWithoutStepCounts = StartsWithout<[](ServerProcessor& processor) {
  ChangeProgress(processor, [](Progress& progress) {
    for (ParameterProgress& parameter : progress) parameter.clear_updates();
  });
}>;
using ForgetsWhatWasPut = StartsWithout<[](ServerProcessor& processor) {
  ChangeProgress(processor, [](Progress& progress) { progress.Clear(); });
}>;
using ForgetsSinceWhen = StartsWithout<[](ServerProcessor& processor) {
  ChangeProgress(processor, [](Progress& progress) {
    for (ParameterProgress& parameter : progress) parameter.clear_values_from();
  });
}>;

// The handlers of a shard that starts anew are made otherwise: kChange(parameter).
template <auto kChange>
class MakesHandlersOf final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    Scenario scenario = world_.scenario;
    for (NamedParameter& parameter : scenario.parameters) kChange(parameter);
    return MakeServerOptions(scenario, shard());
  }
};

using ForgetsTheRateOfAParameter =
    MakesHandlersOf<[](NamedParameter& parameter) { parameter.set_learning_rate_multiplier(1); }>;
using ForgetsTheDecayOfAParameter =
    MakesHandlersOf<[](NamedParameter& parameter) { parameter.set_decay_multiplier(1); }>;

// Has another part of each parameter than before it was started again.
class SplitsOtherwiseLater final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    const bool is_later = world_.log.Begin(Topic::kGradients, static_cast<int32_t>(shard())) > 0;
    std::vector<ServedParameter>& parameters = options.parameters;
    if (!is_later || parameters.size() < 2) return options;
    // The first is one number shorter, and the second longer.
    if (parameters[0].keys.size() < 2) return options;
    --parameters[0].keys.end;
    --parameters[1].keys.begin;
    return options;
  }
};

// Begins with the values of a snapshot, and does not know that these are values.
class StartsWithoutProgress final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot snapshot = ServerHost::Start();
    for (auto& [shard, part] : snapshot.parts) part.state.clear_parameters();
    return snapshot;
  }
};

// Goes on from the step counts of one part, although shards have counted for themselves.
class StartsWithProgressOfOnePart final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot snapshot = ServerHost::Start();
    for (auto& [shard, part] : snapshot.parts) {
      if (shard > 0) part.state.clear_parameters();
    }
    return snapshot;
  }
};

// When it begins again, it makes the step once more that it has made last.
class MakesItsLastStepAgain final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  TrainerStep MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const override {
    const bool is_again = std::exchange(begun_[worker], true);
    if (is_again || clock == 0) return TrainerHost::MakeStep(worker, clock, steps);
    return StepOf(world_.scenario, worker, clock - 1, steps.values(), steps.has_values(),
                  RowsIn(steps));
  }

 private:
  mutable std::map<WorkerId, bool> begun_;
};

// Makes its steps of the values that it was given first.
class KeepsOldValues final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  TrainerStep MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const override {
    std::vector<float>& first = first_[worker];
    if (first.empty()) first = steps.values();
    return StepOf(world_.scenario, worker, clock, first, steps.has_values(), RowsIn(steps));
  }

 private:
  mutable std::map<WorkerId, std::vector<float>> first_;
};

// Makes its steps of the rows that it has read first.
class KeepsOldRows final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  TrainerStep MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const override {
    return StepOf(world_.scenario, worker, clock, steps.values(), steps.has_values(),
                  [&, now = RowsIn(steps)](EmbeddingId row) {
                    return first_.try_emplace({worker, row}, now(row)).first->second;
                  });
  }

 private:
  mutable std::map<std::pair<WorkerId, EmbeddingId>, std::vector<float>> first_;
};

// Takes for values what it is given of parameters that nobody has put.
class TakesZerosForValues final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  TrainerStep MakeStep(WorkerId worker, Clock clock, const TrainerSteps& steps) const override {
    std::vector<uint32_t> all;
    for (uint32_t number = 0; number < world_.scenario.parameters.size(); ++number) {
      all.push_back(number);
    }
    return StepOf(world_.scenario, worker, clock, steps.values(), all, RowsIn(steps));
  }
};

// The first shard is sent the whole of a parameter, and the others nothing.
class SendsTheFirstShardAll final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& records) const override {
    for (OutgoingRecord& record : records) {
      if (record.topic != Topic::kGradients || record.partition == 0) continue;
      std::optional<Gradient> update = UpdateIn(record.value);
      if (!update) continue;
      update->mutable_update()->clear_part();
      record.value = FrameOf(*update);
    }
  }
};

// When the job goes over to other shards it forgets the step that it has made and that not all have
// taken.
class GoesOverWithoutItsStep final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  std::unique_ptr<TrainerTask> GoOver(WorkerId worker, std::unique_ptr<TrainerTask>) override {
    return NewTask(worker);
  }
};

// When the job goes over to other shards it makes a step of the next clock of what it has made of
// this one.
class SaysItsStepOnceMore final : public TrainerHost {
 public:
  using TrainerHost::TrainerHost;

 protected:
  std::unique_ptr<TrainerTask> GoOver(WorkerId worker, std::unique_ptr<TrainerTask> task) override {
    std::unique_ptr<TrainerTask> gone = TrainerHost::GoOver(worker, std::move(task));
    TrainerSteps& steps = gone->steps();
    for (Clock clock = 0; clock < Clock(100); ++clock) {
      if (steps.WantsValues(clock)) continue;  // there is no step of it
      steps.Add(clock + 1, *steps.Of(clock));
      break;
    }
    return gone;
  }
};

template <class Trainer>
PlantedError InTrainer(std::string name, uint64_t seeds,
                       std::function<void(Scenario&, Faults&)> adjust) {
  Factory factory = Factory::Production();
  factory.worker = [](World& world, const std::shared_ptr<Disk>&) {
    return std::make_unique<Trainer>(world);
  };
  return {std::move(name), seeds, std::move(factory), std::move(adjust)};
}

void Trainers(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.shards = std::max(scenario.shards, 2u);
  for (RowNumber& steps : scenario.rows) steps = std::max(steps, RowNumber(6));
  DrawTrainers(scenario);
  faults.losses = false;
  faults.continues = false;
}

void SequentialTrainers(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  Trainers(scenario, faults);
}

void ContinuedTrainers(Scenario& scenario, Faults& faults) {
  Trainers(scenario, faults);
  DrawContinuation(faults);
}

void TrainersOnOtherShards(Scenario& scenario, Faults& faults) {
  SequentialTrainers(scenario, faults);
  DrawReshard(scenario, faults);
}

// Of two tables and a parameter.
void TrainersOfTables(Scenario& scenario, Faults& faults) {
  Trainers(scenario, faults);
  scenario.parameters.resize(1);
  scenario.parameters[0].clear_table();
  for (const uint64_t width : {2, 3}) {
    NamedParameter& table = scenario.parameters.emplace_back();
    table.set_name("table " + std::to_string(width));
    table.add_shape(width);
    table.set_handler("adam");
    table.set_learning_rate_multiplier(1);
    table.set_decay_multiplier(1);
    table.mutable_table()->set_scale(0.25);
  }
  if (scenario.most_message_bytes < kMostMessageBytes) {
    scenario.most_message_bytes = SmallMessageBytes(scenario);
  }
}

void SequentialTrainersOfTables(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  TrainersOfTables(scenario, faults);
}

// With slots.
void TrainersOfAdam(Scenario& scenario, Faults& faults) {
  Trainers(scenario, faults);
  for (NamedParameter& parameter : scenario.parameters) parameter.set_handler("adam");
}

void TrainersWithDecay(Scenario& scenario, Faults& faults) {
  Trainers(scenario, faults);
  scenario.training.set_l2(0.05);
  for (NamedParameter& parameter : scenario.parameters) {
    parameter.set_handler("sgd");
    parameter.set_learning_rate_multiplier(2);
    parameter.set_decay_multiplier(3);
  }
}

}  // namespace

std::vector<PlantedError> PlantedInTrainers() {
  std::vector<PlantedError> errors;
  errors.push_back(
      InServer<LetsLaterPutsCount>("a put that overwrites what was put before", 20, Trainers));
  errors.push_back(InServer<StepsTwice>("a step of a trainer that counts twice", 20, Trainers));
  errors.push_back(
      InServer<StartsWithoutSlots>("a handler's state that no checkpoint has", 20, TrainersOfAdam));
  errors.push_back(InServer<StartsWithoutStepCounts>(
      "a parameter's step count that no checkpoint has", 20, TrainersOfAdam));
  errors.push_back(
      InServer<ForgetsWhatWasPut>("a checkpoint that does not say what was put", 20, Trainers));
  errors.push_back(InServer<ForgetsSinceWhen>(
      "a checkpoint that does not say since when there are values", 100, SequentialTrainers));
  errors.push_back(InServer<ForgetsTheRateOfAParameter>(
      "a parameter whose factor on the rate is forgotten", 20, TrainersWithDecay));
  errors.push_back(InServer<ForgetsTheDecayOfAParameter>(
      "a parameter whose factor on the decay is forgotten", 20, TrainersWithDecay));
  errors.push_back(InServer<SplitsOtherwiseLater>(
      "a shard that splits parameters otherwise when it starts again", 50, Trainers));
  errors.push_back(InServerAtCuts<StartsWithoutProgress>(
      "a start from a snapshot without what was put", 50, ContinuedTrainers));
  errors.push_back(InServerAtCuts<StartsWithProgressOfOnePart>(
      "a start on other shards with what one part says was put", 50, ContinuedTrainers));
  errors.push_back(InTrainer<MakesItsLastStepAgain>("a trainer that makes its last step once more",
                                                    20, Trainers));
  errors.push_back(InTrainer<KeepsOldValues>("a trainer that keeps the values of its first clock",
                                             20, SequentialTrainers));
  errors.push_back(InTrainer<TakesZerosForValues>(
      "a trainer that takes what nobody has put for values", 20, SequentialTrainers));
  errors.push_back(InTrainer<SendsTheFirstShardAll>("a trainer that sends one shard only its step",
                                                    20, SequentialTrainers));
  errors.push_back(InTrainer<GoesOverWithoutItsStep>(
      "a trainer that goes over to other shards without its step", 20, TrainersOnOtherShards));
  errors.push_back(InTrainer<SaysItsStepOnceMore>(
      "a trainer that says its step once more to other shards", 20, TrainersOnOtherShards));
  errors.push_back(InServer<CountsRowsTwice>("an update of a table's row that counts twice", 20,
                                             TrainersOfTables));
  errors.push_back(InServer<CountsStepsOfItsRowsOnly>(
      "a table whose steps a shard counts that has rows of it only", 20, TrainersOfTables));
  errors.push_back(
      InServer<LosesRowsAtAKill>("a table's rows that are lost at a kill", 20, TrainersOfTables));
  errors.push_back(InServer<StartsWithoutStepCounts>("a table's step count that no checkpoint has",
                                                     20, TrainersOfTables));
  errors.push_back(InTrainer<KeepsOldRows>("a trainer that keeps the rows that it has read first",
                                           20, SequentialTrainersOfTables));
  return errors;
}

}  // namespace millrace::simulation
