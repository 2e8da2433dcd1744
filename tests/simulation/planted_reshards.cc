// Errors at the cut at which a job goes over to other shards, and in how these begin.
#include <algorithm>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Begins from what the inspector has of the sealed shards, which is the same, and is then altered.
class BeginsOtherwise : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  bool ReadsSealedStores() const final { return false; }
};

// What the optimizer has gathered is not taken along.
class BeginsWithoutOptimizerState final : public BeginsOtherwise {
 public:
  using BeginsOtherwise::BeginsOtherwise;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot sealed = ServerHost::Start();
    for (auto& [shard, part] : sealed.parts) part.slots.clear();
    return sealed;
  }
};

// Each worker is taken to be one update before where it is, and says that update again.
class BeginsOneUpdateEarly final : public BeginsOtherwise {
 public:
  using BeginsOtherwise::BeginsOtherwise;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot sealed = ServerHost::Start();
    for (auto& [shard, part] : sealed.parts) {
      for (ShardState::Member& member : *part.state.mutable_members()) {
        member.set_clock(member.clock() - (member.clock() > 0 ? 1 : 0));
      }
    }
    return sealed;
  }
};

// Takes the embedding rows of the sealed shard of its own number only.
class BeginsWithRowsOfOneShard final : public BeginsOtherwise {
 public:
  using BeginsOtherwise::BeginsOtherwise;

 protected:
  StoredSnapshot Start() const override {
    StoredSnapshot sealed = ServerHost::Start();
    for (auto& [of, part] : sealed.parts) {
      if (of != shard()) part.rows.clear();
    }
    return sealed;
  }
};

void ReshardsOfShards(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  scenario.shards = std::max(scenario.shards, 2u);
  DrawReshard(scenario, faults);
}

}  // namespace

std::vector<PlantedError> PlantedInReshards() {
  std::vector<PlantedError> errors;
  const auto with_rows = [](Scenario& scenario, Faults& faults) {
    EventualEmbeddings(scenario, faults);
    ReshardsOfShards(scenario, faults);
  };
  errors.push_back(InWorker<TellsOneShardALaterCut<IsOfReshard>>(
      "a last cut that is one clock too late on one shard", 20, ReshardsOfShards));
  errors.push_back(InServerAtCuts<LetsAnUpdateThroughACut<IsOfReshard>>(
      "an update that is let through the last cut", 20, ReshardsOfShards));
  errors.push_back(InServerAtCuts<BeginsWithoutOptimizerState>(
      "new shards that begin without the optimizer's state", 30, with_rows));
  errors.push_back(InServerAtCuts<BeginsOneUpdateEarly>("new shards that begin one update early",
                                                        20, ReshardsOfShards));
  errors.push_back(InServerAtCuts<BeginsWithRowsOfOneShard>(
      "new shards with the embedding rows of one of those before", 30, with_rows));
  return errors;
}

}  // namespace millrace::simulation
