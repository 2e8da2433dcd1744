#include "tests/simulation/trainers.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostSteps = 16;
constexpr const char* kHandlers[] = {"",     "sgd",  "momentum", "adagrad",
                                     "adam", "ftrl", "assign",   "add"};
constexpr double kMultipliers[] = {0.5, 1, 1, 3};

uint64_t Draw(const Scenario& scenario, WorkerId worker, Clock clock, uint64_t what) {
  return Random::Hash(scenario.data_seed, worker, clock, 80'000 + what);
}

// Of magnitudes so far apart that any other order of additions gives other bits.
float Number(uint64_t drawn) {
  const auto exponent = static_cast<int>(drawn % 24) - 12;
  const auto size =
      static_cast<float>(std::ldexp(1 + static_cast<double>(drawn >> 40) * 0x1p-24, exponent));
  return drawn % 7 < 3 ? -size : size;
}

NamedParameter DrawParameter(Random& random, uint32_t number, bool is_long) {
  NamedParameter parameter;
  parameter.set_name("parameter " + std::to_string(number));
  const uint64_t dimensions = random.Below(3);
  for (uint64_t i = 0; i < dimensions; ++i) parameter.add_shape(random.Between(1, 5));
  if (is_long) parameter.add_shape(300);
  parameter.set_handler(kHandlers[random.Below(std::size(kHandlers))]);
  parameter.set_learning_rate_multiplier(kMultipliers[random.Below(std::size(kMultipliers))]);
  parameter.set_decay_multiplier(kMultipliers[random.Below(std::size(kMultipliers))]);
  return parameter;
}

}  // namespace

void DrawTrainers(Scenario& scenario) {
  Random random(Random::Hash(scenario.data_seed, 0, 0, 50008));
  Training training;
  training.set_model(Training::EXTERNAL);
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  training.set_schedule(Training::ONE_PASS);
  *training.mutable_consistency() = scenario.training.consistency();
  if (scenario.training.has_pipeline()) training.set_pipeline(scenario.training.pipeline());
  Training::Optimizer& optimizer = *training.mutable_optimizer();
  optimizer.set_kind(static_cast<Training::Optimizer::Kind>(random.Below(5)));
  optimizer.set_learning_rate(0.1);
  optimizer.set_ftrl_beta(0.5);
  optimizer.set_l1(random.Chance(0.7) ? 0.1 : 0);
  training.set_l2(random.Chance(0.5) ? 0.01 : 0);
  Scenario drawn;
  drawn.data_seed = scenario.data_seed;
  drawn.workers = scenario.workers;
  drawn.shards = scenario.shards;
  drawn.replicas = scenario.replicas;
  drawn.classes = 0;
  drawn.numeric = 0;
  drawn.hashed = 0;
  drawn.rows = scenario.rows;
  for (RowNumber& steps : drawn.rows) steps = RowNumber(std::min<uint64_t>(steps, kMostSteps));
  drawn.training = training;
  // Now and then more keys than one block of a shard holds.
  const bool is_long = random.Chance(0.05);
  bool has_ftrl = optimizer.kind() == Training::Optimizer::FTRL;
  const auto count = static_cast<uint32_t>(random.Between(1, 5));
  for (uint32_t number = 0; number < count; ++number) {
    drawn.parameters.push_back(DrawParameter(random, number, is_long && number == 1));
    has_ftrl = has_ftrl || drawn.parameters.back().handler() == "ftrl";
  }
  if (!has_ftrl && random.Chance(0.3)) drawn.training.mutable_optimizer()->set_decay(0.05);
  if (scenario.max_frame_bytes < kMaxFrameBytes) {
    drawn.max_frame_bytes = is_long ? 4000 : random.Between(40, 120);
  }
  if (scenario.most_message_bytes < kMostMessageBytes) {
    drawn.most_message_bytes = SmallMessageBytes(drawn);
  }
  scenario = drawn;
}

std::vector<KeyRange> KeysOf(const Scenario& scenario) {
  std::vector<KeyRange> keys;
  uint64_t end = 0;
  for (const NamedParameter& parameter : scenario.parameters) {
    uint64_t size = 1;
    for (const uint64_t extent : parameter.shape()) size *= extent;
    keys.push_back({end, end + size});
    end += size;
  }
  return keys;
}

bool Puts(const Scenario& scenario, WorkerId worker, Clock clock, uint32_t number) {
  return Draw(scenario, worker, clock, 10ULL * number) % (clock == 0 ? 2 : 5) == 0;
}

bool Changes(const Scenario& scenario, WorkerId worker, Clock clock, uint32_t number) {
  return Draw(scenario, worker, clock, 10ULL * number + 1) % 3 != 0;
}

TrainerStep StepOf(const Scenario& scenario, WorkerId worker, Clock clock,
                   std::span<const float> values, const std::vector<uint32_t>& has_values) {
  TrainerStep step;
  step.weight = static_cast<double>(1 + Draw(scenario, worker, clock, 1) % 9);
  step.rows = Draw(scenario, worker, clock, 2) % 4;
  const std::vector<KeyRange> keys = KeysOf(scenario);
  for (uint32_t number = 0; number < keys.size(); ++number) {
    const bool puts = Puts(scenario, worker, clock, number);
    const bool changes = Changes(scenario, worker, clock, number);
    const float sign = std::ranges::binary_search(has_values, number) ? 1.0f : -1.0f;
    for (uint64_t key = keys[number].begin; key < keys[number].end; ++key) {
      const float drawn = Number(Draw(scenario, worker, clock, 1000 + 2 * key));
      if (puts) step.put[number].push_back(drawn);
      const float change = Number(Draw(scenario, worker, clock, 1001 + 2 * key));
      if (changes) step.part[number].push_back(0.125f * values[key] + sign * change);
    }
  }
  return step;
}

}  // namespace millrace::simulation
