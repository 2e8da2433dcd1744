// Errors at the cut of a snapshot, and in starts from one.
#include <algorithm>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// What came while it stood at a cut is not read again.
class ReadsOnAfterACut final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  void ReadFrom(Offset) override {}
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

class BeginsAStepTooLate final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    ++options.snapshot_every;
    return options;
  }
};

void SnapshotsOfShards(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.shards = std::max(scenario.shards, 2u);
  faults.snapshots = 0.02;
  faults.strangers = false;
}

}  // namespace

std::vector<PlantedError> PlantedInSnapshots() {
  std::vector<PlantedError> errors;
  const auto continues = [](Scenario& scenario, Faults& faults) {
    EventualEmbeddings(scenario, faults);
    DrawContinuation(faults);
  };
  errors.push_back(InWorker<TellsOneShardALaterCut<IsOfSnapshot>>(
      "a cut that is one clock too late on one shard", 10, SnapshotsOfShards));
  errors.push_back(InServerAtCuts<LetsAnUpdateThroughACut<IsOfSnapshot>>(
      "an update that is let through a cut", 10, SnapshotsOfShards));
  errors.push_back(InServerAtCuts<StartsWithoutOptimizerState>(
      "a start from a snapshot without the optimizer's state", 20, continues));
  errors.push_back(InServerAtCuts<StartsWithRowsOfOnePart>(
      "a start on other shards with the embedding rows of one part", 20, continues));
  errors.push_back(InServerAtCuts<ReadsOnAfterACut>(
      "records that are passed over at a cut and not read again", 20, SnapshotsOfShards));
  errors.push_back(InServerAtCuts<BeginsAStepTooLate>(
      "a periodic snapshot that is begun a step too late", 20,
      [](Scenario& scenario, Faults&) { scenario.training.set_snapshot_every(2); }));
  errors.push_back(InServerAtCuts<AnnouncesAtACut>(
      "answers that are made at a cut", 50, [](Scenario& scenario, Faults& faults) {
        SnapshotsOfShards(scenario, faults);
        scenario.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
      }));
  return errors;
}

}  // namespace millrace::simulation
