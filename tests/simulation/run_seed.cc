// A seed's job, what it is compared with, and the job that starts from its snapshot.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/inspector_compare.h"
#include "tests/simulation/reference_loop.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/stored_snapshot.h"
#include "tests/simulation/trainers.h"
#include "topics/figures_codec.h"

namespace millrace::simulation {
namespace {

SkippedUpdates PoisonedUpdates(const Simulation& simulation, uint32_t shards) {
  SkippedUpdates updates(shards);
  for (ShardId shard = 0; shard < shards; ++shard) {
    for (const Referee::Accepted& accepted : simulation.referee(shard).accepted()) {
      if (!accepted.poisoned) continue;
      const bool counts = accepted.message.rows_end() > accepted.before.end;
      updates[shard][{accepted.worker, accepted.clock}] = counts;
    }
  }
  return updates;
}

bool AnyPoisoned(const Simulation& simulation, uint32_t shards) {
  return std::ranges::any_of(PoisonedUpdates(simulation, shards),
                             [](const auto& of_shard) { return !of_shard.empty(); });
}

// Empty, or how the run differs from training in one process.
std::string Compare(const Scenario& scenario, const Simulation& simulation, Outcome& outcome) {
  const SnapshotAudit& snapshots = simulation.snapshots();
  ++outcome.coverage["compared with training in one process"];
  if (scenario.online()) {
    ++outcome.coverage[scenario.wide ? "online, wide, and compared" : "online, and compared"];
  }
  if (scenario.external()) ++outcome.coverage["job of trainers of one's own, and compared"];
  if (scenario.has_tables()) ++outcome.coverage["job of tables, and compared"];
  if (scenario.regression) ++outcome.coverage["regression, and compared"];
  const Trained trained =
      TrainInOneProcess(scenario, PoisonedUpdates(simulation, scenario.shards), snapshots.Rounds(),
                        scenario.resizes() ? simulation.presence() : Presence());
  if (scenario.resizes()) ++outcome.coverage["job whose workers changed, and compared"];
  if (!trained.misled.empty()) return "the learner differs from the plain one: " + trained.misled;
  if (trained.moments.drifts > 0) ++outcome.coverage["forgetting, and compared"];
  if (!SameBits(simulation.weights(), trained.end)) {
    return "the weights are not those of training in one process";
  }
  // How far predictions were off shows only here.
  MomentsMessage moments;
  ToProto(trained.moments, moments);
  const Referee::State& state = simulation.referee(ShardId(0)).now();
  if (!SameMoments(state.columns, moments) || !SameRange(state.range, moments) ||
      !SameClassRows(state.class_rows, moments.class_rows()) || state.drifts != moments.drifts()) {
    return "the moments are not those of training in one process";
  }
  if (!trained.after.empty()) ++outcome.coverage["snapshots compared with training in one process"];
  // With a forged update a shard may have more rounds than there is to be trained on.
  return simulation.forged() ? "" : snapshots.Check(scenario, trained.after);
}

void Run(Simulation& simulation, Outcome& outcome) {
  outcome.violation = simulation.Run();
  for (const auto& [what, count] : simulation.coverage()) outcome.coverage[what] += count;
}

// Another job starts from the run's newest snapshot, if it has one, and ends in the same bytes.
void Continue(const Scenario& scenario, const Simulation& before, const Factory& factory,
              Random& random, Outcome& outcome) {
  const std::shared_ptr<StoredSnapshot> snapshot = before.NewestSnapshot();
  if (snapshot == nullptr) return;
  const bool is_new = random.Chance(0.2);
  snapshot->start = is_new ? SnapshotStart::kNewStream : SnapshotStart::kSameStream;
  Scenario next = scenario;
  next.start = snapshot;
  next.shards = static_cast<uint32_t>(random.Between(1, 4));
  next.replicas = next.shards > 1 ? static_cast<uint32_t>(random.Below(3)) : 0;
  if (next.shards != scenario.shards) ++outcome.coverage["another number of shards continues"];
  Faults faults = DrawFaults(random);
  if (next.max_frame_bytes < kMaxFrameBytes) faults.timer = true;
  faults.losses = false;
  faults.strangers = false;
  Simulation simulation(next, faults, factory, random.Next());
  Run(simulation, outcome);
  const bool comparable = scenario.sequential() && scenario.one_pass() && scenario.repeatable();
  if (outcome.violation.empty() && comparable && !is_new && !AnyPoisoned(before, scenario.shards)) {
    ++outcome.coverage["continued job compared with training in one process"];
    outcome.violation = Compare(next, simulation, outcome);
  }
  if (outcome.violation.empty()) return;
  outcome.violation = "a job that starts from a snapshot: " + outcome.violation;
  outcome.options += "; then " + next.ToString() + "; " + faults.ToString();
}

// The shards that the job has gone over to go on, and end in the same bytes.
void GoOnWithOtherShards(const Scenario& scenario, Simulation& before, const Factory& factory,
                         Random& random, Outcome& outcome) {
  Scenario next = scenario;
  next.start = before.Sealed();
  next.shards = NextShards(scenario);
  next.replicas = next.shards > 1 ? static_cast<uint32_t>(random.Below(3)) : 0;
  Faults faults = DrawFaults(random);
  faults.timer = true;
  faults.losses = false;
  faults.strangers = false;
  std::map<WorkerId, GoingTrainer> going;
  if (scenario.external()) {
    going = before.TakeTrainers();
    // Some begin again instead.
    std::erase_if(going, [&random](const auto&) { return random.Chance(0.2); });
  }
  Simulation simulation(next, faults, factory, random.Next(), std::move(going));
  Run(simulation, outcome);
  const bool comparable = scenario.sequential() && scenario.one_pass() && scenario.repeatable();
  if (outcome.violation.empty() && comparable && !AnyPoisoned(before, scenario.shards)) {
    ++outcome.coverage["job on other shards, and compared"];
    if (scenario.external()) ++outcome.coverage["trainers on other shards, and compared"];
    outcome.violation = Compare(next, simulation, outcome);
  }
  if (outcome.violation.empty()) return;
  outcome.violation = "on other shards: " + outcome.violation;
  outcome.options += "; then " + next.ToString() + "; " + faults.ToString();
}

}  // namespace

uint32_t NextShards(const Scenario& scenario) {
  const uint64_t drawn = Random::Hash(scenario.data_seed, 0, 0, 50012) % 3;
  return static_cast<uint32_t>(1 + (scenario.shards + drawn) % 4);
}

void DrawReshard(Scenario& scenario, Faults& faults) {
  scenario.shards = std::min(scenario.shards, 4u);
  faults.reshards = true;
  faults.snapshots = 0.005;
  faults.continues = false;
  faults.losses = false;
  faults.strangers = false;  // who forges updates lets shards go to different clocks
  faults.timer = true;       // what is said to a sealed shard is said again
}

void DrawContinuation(Faults& faults) {
  faults.continues = true;
  faults.snapshots = 0.02;
}

void DrawLostCopies(Scenario& scenario, Faults& faults) {
  scenario.weights_from_workers = true;
  faults.lost_copies = true;
  faults.losses = false;  // a shard without `parameters` refuses nothing then
  faults.snapshots = 0;   // shard 0 forgets which it has made
  scenario.training.clear_snapshot_every();
  faults.strangers = false;  // whose reports would be believed
  faults.timer = true;       // what a shard reads while it is lost, it wants to be told again
}

void DrawResizes(Scenario& scenario, Faults& faults) {
  const uint64_t drawn = Random::Hash(scenario.data_seed, 0, 0, 50006);
  DrawResizes(scenario, static_cast<uint32_t>(1 + drawn % 4));
  faults.losses = false;     // of rows, whose places the plan has
  faults.strangers = false;  // between the rows
  faults.continues = false;  // nobody knows then which leases are done
}

void DrawTrainers(Scenario& scenario, Faults& faults) {
  DrawTrainers(scenario);
  const uint64_t drawn = Random::Hash(scenario.data_seed, 0, 0, 50009) % 4;
  if (drawn == 0) DrawContinuation(faults);
  if (drawn == 1) DrawReshard(scenario, faults);
}

Outcome RunSeed(uint64_t seed) {
  Random rare(Random::Hash(seed, 0, 0, 0));  // of its own: a planted error draws its own, too
  return RunSeed(seed, Factory::Production(), [&rare](Scenario& scenario, Faults& faults) {
    scenario.batches_grow = Random::Hash(scenario.data_seed, 0, 0, 50002) % 2 == 0;
    scenario.flushes = Random::Hash(scenario.data_seed, 0, 0, 50003) % 2 == 0;
    const bool obeys = Random::Hash(scenario.data_seed, 0, 0, 50004) % 4 != 0;
    scenario.training.set_batch_wait_s(obeys ? 1 : 0);
    scenario.direct = Random::Hash(scenario.data_seed, 0, 0, 50010) % 3 == 0;
    const uint64_t period = Random::Hash(scenario.data_seed, 0, 0, 50011);
    if (period % 4 == 0) scenario.training.set_snapshot_every(1 + period / 4 % 12);
    if (Random::Hash(scenario.data_seed, 0, 0, 50007) % 8 == 0) {
      return DrawTrainers(scenario, faults);
    }
    const bool resizes = Random::Hash(scenario.data_seed, 0, 0, 50005) % 8 == 0;
    if (!resizes && Random::Hash(scenario.data_seed, 0, 0, 50013) % 8 == 0) {
      DealToOneWorker(scenario);
    }
    if (Random::Hash(scenario.data_seed, 0, 0, 50011) % 6 == 0) {
      return DrawReshard(scenario, faults);
    }
    if (rare.Chance(0.08)) return DrawLostCopies(scenario, faults);
    if (rare.Chance(0.07)) return DrawContinuation(faults);
    if (resizes) DrawResizes(scenario, faults);
  });
}

Outcome RunSeed(uint64_t seed, const Factory& factory,
                const std::function<void(Scenario&, Faults&)>& adjust) {
  Random random(seed);
  Scenario scenario = DrawScenario(random);
  Faults faults = DrawFaults(random);
  // Chunks that two senders interleave may be forgotten, until the timer sends them again.
  if (scenario.max_frame_bytes < kMaxFrameBytes) faults.timer = true;
  if (!scenario.repeatable()) faults.workers = random.Chance(0.3);
  adjust(scenario, faults);
  if (!scenario.online()) scenario.training.clear_on_drift();  // what was drawn may be another kind
  Outcome outcome;
  outcome.options = scenario.ToString() + "; " + faults.ToString();
  Simulation simulation(scenario, faults, factory, random.Next());
  Run(simulation, outcome);
  if (simulation.refused() || simulation.lost_state() || !outcome.violation.empty()) return outcome;
  if (simulation.Sealed() != nullptr) {
    GoOnWithOtherShards(scenario, simulation, factory, random, outcome);
    return outcome;
  }
  const bool compares = scenario.sequential() && scenario.one_pass() &&
                        (scenario.repeatable() || simulation.workers_lived());
  if (compares) {
    if (!scenario.repeatable()) ++outcome.coverage["largest part of updates sent, and compared"];
    outcome.violation = Compare(scenario, simulation, outcome);
  }
  if (faults.continues && outcome.violation.empty()) {
    Continue(scenario, simulation, factory, random, outcome);
  }
  // (Without faults workers would change at other clocks.)
  if (!compares || !outcome.violation.empty() || AnyPoisoned(simulation, scenario.shards) ||
      scenario.resizes()) {
    return outcome;
  }
  ++outcome.coverage["compared with a run without faults"];
  scenario.replicas = 0;
  Simulation calm(scenario, Faults(), Factory::Production(), random.Next());
  outcome.violation = calm.Run();
  if (outcome.violation.empty() && !SameBits(simulation.weights(), calm.weights())) {
    outcome.violation = "the weights are not those of a run without faults";
  }
  return outcome;
}

}  // namespace millrace::simulation
