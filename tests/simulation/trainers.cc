#include "tests/simulation/trainers.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/hash.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostSteps = 16;
constexpr uint64_t kRowsOfTable = 6;
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
  parameter.set_handler(kHandlers[random.Below(std::size(kHandlers))]);
  parameter.set_learning_rate_multiplier(kMultipliers[random.Below(std::size(kMultipliers))]);
  parameter.set_decay_multiplier(kMultipliers[random.Below(std::size(kMultipliers))]);
  if (random.Chance(0.3)) {
    parameter.add_shape(random.Between(1, kMostSimulatedWidth));
    parameter.mutable_table()->set_scale(random.Chance(0.5) ? 0.25 : 0);
    return parameter;
  }
  const uint64_t dimensions = random.Below(3);
  for (uint64_t i = 0; i < dimensions; ++i) parameter.add_shape(random.Between(1, 5));
  if (is_long) parameter.add_shape(300);
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
    NamedParameter& parameter = drawn.parameters.back();
    const bool is_ftrl =
        parameter.handler() == "ftrl" ||
        (parameter.handler().empty() && optimizer.kind() == Training::Optimizer::FTRL);
    has_ftrl = has_ftrl || is_ftrl;
    if (is_ftrl && parameter.has_table()) parameter.mutable_table()->set_scale(0);
  }
  drawn.training.mutable_embedding()->set_admit_after(random.Chance(0.7) ? 1 : 2);
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
    uint64_t size = parameter.has_table() ? 0 : 1;
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

std::vector<EmbeddingId> RowsOfTables(const Scenario& scenario) {
  std::vector<EmbeddingId> rows;
  uint64_t table = 0;
  for (const NamedParameter& parameter : scenario.parameters) {
    if (!parameter.has_table()) continue;
    for (uint64_t i = 0; i + 1 < kRowsOfTable; ++i) rows.push_back(table << 56 | i * i);
    rows.push_back(table << 56 | 0xffffffffffffff);
    ++table;
  }
  return rows;
}

uint32_t TableParameterOf(const Scenario& scenario, EmbeddingId row) {
  uint64_t before = row >> 56;
  uint32_t number = 0;
  while (!scenario.parameters[number].has_table() || before-- > 0) ++number;
  return number;
}

size_t WidthOf(const Scenario& scenario, EmbeddingId row) {
  return scenario.parameters[TableParameterOf(scenario, row)].shape(0);
}

size_t WidestRow(const Scenario& scenario) {
  size_t widest = 0;
  for (const EmbeddingId row : RowsOfTables(scenario)) {
    widest = std::max(widest, WidthOf(scenario, row));
  }
  return widest;
}

std::vector<EmbeddingId> RowsRead(const Scenario& scenario, WorkerId worker, Clock clock) {
  std::vector<EmbeddingId> read;
  for (const EmbeddingId row : RowsOfTables(scenario)) {
    if (Draw(scenario, worker, clock, 100'000 + 3 * row) % 3 == 0) read.push_back(row);
  }
  return read;
}

// Of a row that it reads, what it says of it.
std::vector<float> ChangeOfRow(const Scenario& scenario, WorkerId worker, Clock clock,
                               EmbeddingId row, const std::vector<float>& values) {
  std::vector<float> change;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t drawn = Draw(scenario, worker, clock, Mix64(row) + i);
    change.push_back(0.125f * values[i] + Number(drawn));
  }
  return change;
}

TrainerStep StepOf(const Scenario& scenario, WorkerId worker, Clock clock,
                   std::span<const float> values, const std::vector<uint32_t>& has_values,
                   const RowReader& row_of) {
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
  for (const EmbeddingId row : RowsRead(scenario, worker, clock)) {
    if (Draw(scenario, worker, clock, 100'001 + 3 * row) % 4 == 0) continue;
    const std::vector<float> change = ChangeOfRow(scenario, worker, clock, row, row_of(row));
    step.table_rows.ids.push_back(row);
    step.table_rows.values.insert(step.table_rows.values.end(), change.begin(), change.end());
  }
  // Mostly it knows what the next one reads; and now and then it is mistaken.
  for (const EmbeddingId row : RowsRead(scenario, worker, clock + 1)) {
    const uint64_t drawn = Draw(scenario, worker, clock, 100'002 + 3 * row);
    if (Draw(scenario, worker, clock, 3) % 4 > 0 && drawn % 8 > 0) step.wanted.push_back(row);
  }
  return step;
}

}  // namespace millrace::simulation
