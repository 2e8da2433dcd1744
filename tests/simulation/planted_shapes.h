// What the files of planted errors share: which process has the error, and in what jobs.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/planted.h"
#include "topics/frame.h"

namespace millrace::simulation {

inline void Unchanged(Scenario&, Faults&) {}

inline void WholeMessages(Scenario& scenario, Faults&) {
  scenario.max_frame_bytes = kMaxFrameBytes;
}

// The repeat timer would make up for what was not said; without it the run hangs.
inline void WithoutTimer(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  faults.timer = false;
  faults.retention = false;
}

inline void Sequential(Scenario& scenario, Faults&) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.training.mutable_consistency()->set_model(Training::Consistency::SEQUENTIAL);
  scenario.training.mutable_compression()->clear_top_k();  // such runs are compared with nothing
  // Nor do these go with what training in one process does (DrawEmbeddings).
  scenario.training.mutable_embedding()->clear_admit_after();
  scenario.training.mutable_embedding()->clear_expire_after_s();
}

inline void SequentialShards(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.shards = 3;
}

// Not a regression.
inline void OfClasses(Scenario& scenario) {
  if (!scenario.regression) return;
  scenario.regression = false;
  scenario.classes = 2;
  Training& training = scenario.training;
  training.clear_loss();
  training.clear_huber_limit();
  if (training.model() == Training::SOFTMAX) scenario.ids = 0;
}

// Gradients of a linear regression in one pass, without outliers, whose first row nobody can
// predict. (planted_regressions.cc)
void Regression(Scenario& scenario, Faults& faults);

// Learns row by row, and acts on drifts, which such jobs mostly have. (planted_online.cc)
void Forgetting(Scenario& scenario, Faults& faults);

// So that rounds on several shards have embedding rows in them.
inline void SequentialEmbeddings(Scenario& scenario, Faults& faults) {
  SequentialShards(scenario, faults);
  OfClasses(scenario);
  scenario.ids = 2;
  scenario.wide = false;
  scenario.classes = 2;
  scenario.wide = false;
  Training& training = scenario.training;
  training.clear_wide_above();
  training.set_schedule(Training::ONE_PASS);
  training.set_model(Training::FACTORIZATION_MACHINE);
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  training.mutable_embedding()->set_factors(2);
  training.mutable_embedding()->set_initial_limit(0.5);
}

// Rows are stored late, and the job ends in nobody else's bytes.
inline void EventualEmbeddings(Scenario& scenario, Faults& faults) {
  SequentialEmbeddings(scenario, faults);
  scenario.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  scenario.training.mutable_embedding()->set_admit_after(2);
  scenario.training.clear_compression();
}

// The update in a record that is not split; empty: none.
inline std::optional<Gradient> UpdateIn(std::string_view value) {
  Gradient message;
  if (value.size() < 2 || value[1] != 0) return std::nullopt;
  if (!message.ParseFromArray(value.data() + 2, static_cast<int>(value.size() - 2))) {
    return std::nullopt;
  }
  if (!message.has_update()) return std::nullopt;
  return message;
}

inline std::string FrameOf(const google::protobuf::MessageLite& message) {
  return MakeFrames(message.SerializeAsString(), 0).front();
}

// A worker that differs in its options only: kChange(worker, options).
template <auto kChange>
class WithOtherOptions final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  WorkerOptions Options(WorkerId worker) const override {
    WorkerOptions options = WorkerHost::Options(worker);
    kChange(worker, options);
    return options;
  }
};

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

template <class Image>
PlantedError InImage(std::string name, uint64_t seeds) {
  Factory factory = Factory::Production();
  factory.image = [](World& world, ShardId shard, uint64_t seed) {
    return std::make_unique<Image>(world, shard, seed);
  };
  return {std::move(name), seeds, std::move(factory), Unchanged};
}

// Without snapshots: that a part's store is held against `parameters` would show much of this, too.
template <class Server>
PlantedError InServer(std::string name, uint64_t seeds,
                      std::function<void(Scenario&, Faults&)> adjust) {
  return InServerAtCuts<Server>(std::move(name), seeds,
                                [adjust = std::move(adjust)](Scenario& scenario, Faults& faults) {
                                  adjust(scenario, faults);
                                  faults.snapshots = 0;
                                  scenario.training.clear_snapshot_every();
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

inline bool IsOfSnapshot(const SnapshotMark& mark) { return mark.snapshot() != 0; }
inline bool IsOfReshard(const SnapshotMark& mark) { return mark.next_shards() != 0; }

// Every shard hears of a cut for which kIsMeant holds, but shard 1 of another one.
template <bool (*kIsMeant)(const SnapshotMark&)>
class TellsOneShardALaterCut final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& records) const override {
    for (OutgoingRecord& record : records) {
      if (record.topic != Topic::kGradients || record.partition != 1) continue;
      std::optional<Gradient> update = UpdateIn(record.value);
      if (!update || !kIsMeant(update->update().mark())) continue;
      SnapshotMark& mark = *update->mutable_update()->mutable_mark();
      mark.set_cut(mark.cut() + 1);
      record.value = FrameOf(*update);
    }
  }
};

// A shard that hears of the cut when it is past: it has an update more than the others.
template <bool (*kIsMeant)(const SnapshotMark&)>
class LetsAnUpdateThroughACut final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    const SnapshotMark& mark = update.update().mark();
    if (shard() == 0 || !kIsMeant(mark) || update.clock() + 1 != mark.cut()) return false;
    update.mutable_update()->clear_mark();
    return true;
  }
};

inline void Losses(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  faults.losses = true;
  faults.rate = std::max(faults.rate, 0.01);
}

// Embedding rows do not catch up with what they have missed in steps that do not name them:
// penalties, or forgetting.
class LosesWhatRowsHaveMissed final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    auto& processor = const_cast<ServerProcessor&>(task().processor());
    ShardState state;
    processor.SaveState(state);
    state.set_shrinkage(0);
    state.mutable_previous_round()->set_shrinkage(0);
    return processor.LoadState(state);
  }
};

}  // namespace millrace::simulation
