// What a shard is before anything is learnt, by other code than the shard's.
#include "tests/simulation/referee_job.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "tests/simulation/plain_learner.h"
#include "tests/simulation/plain_newton.h"
#include "tests/simulation/trainers.h"

namespace millrace::simulation {
namespace {

// Evenly within the limit, by what is drawn.
float Drawn(uint64_t what, float limit) {
  const auto draw = static_cast<double>(Mix64(what) >> 40);
  return limit * static_cast<float>(std::ldexp(draw, -23) - 1);
}

// The parameters of a network whose first key is `key`: each layer's weights are drawn by key and
// seed, then come its biases; in the end the output's weights. One that is a model has before it
// the first layer's weights of hashed features, which are drawn within another limit.
std::vector<float> NetworkAtBirth(const Scenario& scenario, uint64_t key) {
  std::vector<float> network;
  const bool deep_fm = scenario.training.model() == Training::DEEP_FM;
  if (!deep_fm && !scenario.is_network()) return network;
  const Training::Embedding& embedding = scenario.training.embedding();
  const uint64_t start = Mix64(~embedding.seed());
  const auto draw = [&](uint64_t count, float limit) {
    for (uint64_t i = 0; i < count; ++i) {
      network.push_back(Drawn(start + key + network.size(), limit));
    }
  };
  if (!deep_fm && !scenario.wide) {
    draw(scenario.hashed * scenario.training.hidden(0),
         static_cast<float>(embedding.initial_limit()));
  }
  uint64_t inputs = (deep_fm ? scenario.ids * embedding.factors() : 0) + scenario.numeric;
  for (const uint32_t units : scenario.training.hidden()) {
    draw(inputs * units, static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs))));
    network.resize(network.size() + units);
    inputs = units;
  }
  network.resize(network.size() + inputs * (deep_fm ? 1 : scenario.scores()));
  return network;
}

// Of a linear model, the numbers that a feature has. An online learner has a weight of each of its
// rates and a curvature; of two classes it has one score, as of a regression.
uint64_t FloatsPerFeature(const Scenario& scenario) {
  if (scenario.is_network()) return scenario.scores();
  if (scenario.online()) return kFloatsOfWeight * (scenario.classes == 2 ? 1 : scenario.scores());
  if (scenario.ids > 0) return 1;  // a factorization machine
  return scenario.scores();
}

// The next number of floats that fills whole features.
uint64_t WholeFeatures(const Scenario& scenario, uint64_t count) {
  uint64_t floats = 0;
  while (floats < count) floats += FloatsPerFeature(scenario);
  return floats;
}

// What stands behind an online learner's bias: losses and the number of rows of each class,
// or of all.
uint64_t FloatsOfRace(const Scenario& scenario) {
  return scenario.online() ? WholeFeatures(scenario, kRaceLosses + scenario.scores()) : 0;
}

// And behind that: how the numeric columns go together.
uint64_t FloatsOfNewton(const Scenario& scenario) {
  if (!scenario.online()) return 0;
  const uint64_t columns = FloatsPerFeature(scenario) / kFloatsOfWeight;
  return WholeFeatures(scenario, PlainNewton::SumsFor(scenario.numeric, columns));
}

// How many numbers of an embedding row are drawn.
uint64_t RandomFloatsOfRow(const Scenario& scenario) {
  if (scenario.is_network()) return scenario.training.hidden(0);
  const bool is_linear = scenario.training.model() == Training::SOFTMAX;
  return is_linear ? 0 : scenario.training.embedding().factors();
}

// The shard's embedding rows: linear weights are zero, the factors are drawn by id and seed.
std::map<uint64_t, std::vector<float>> RowsAtBirth(const Scenario& scenario, ShardId shard) {
  std::map<uint64_t, std::vector<float>> rows;
  const Training::Embedding& embedding = scenario.training.embedding();
  const auto limit = static_cast<float>(embedding.initial_limit());
  for (const EmbeddingId id : AllIds(scenario)) {
    if (Mix64(id) % scenario.shards != shard) continue;
    std::vector<float>& row = rows[id];
    row.resize(FloatsPerFeature(scenario));
    const uint64_t start = Mix64(Mix64(embedding.seed()) ^ id);
    for (uint64_t i = RandomFloatsOfRow(scenario); i > 0; --i) {
      row.push_back(Drawn(start + row.size(), limit));
    }
  }
  return rows;
}

// Each is drawn by its table's scale; behind its own width are zeros.
std::map<uint64_t, std::vector<float>> RowsOfTablesAtBirth(const Scenario& scenario,
                                                           ShardId shard) {
  std::map<uint64_t, std::vector<float>> rows;
  const uint64_t seed = scenario.training.embedding().seed();
  for (const EmbeddingId id : RowsOfTables(scenario)) {
    if (Mix64(id) % scenario.shards != shard) continue;
    const ParameterTable& table = scenario.parameters[TableParameterOf(scenario, id)].table();
    std::vector<float>& row = rows[id];
    for (size_t i = 0; i < WidthOf(scenario, id); ++i) {
      const float drawn = Drawn(Mix64(Mix64(seed) ^ id) + i, static_cast<float>(table.scale()));
      row.push_back(table.scale() > 0 ? drawn : 0.0f);
    }
    row.resize(WidestRow(scenario));
  }
  return rows;
}

// Of trainers of one's own: the parameters stand one behind the other, and are born as zeros.
Referee::Job WithParameters(const Scenario& scenario, ShardId shard, Referee::Job job) {
  const std::vector<KeyRange> all = KeysOf(scenario);
  const uint64_t keys = all.back().end;
  for (uint64_t key = 0; key < keys; ++key) {
    // The first shards have one key more, if not all can have as many.
    const uint64_t rest = keys % scenario.shards;
    const uint64_t most = keys / scenario.shards + 1;
    const uint64_t owner = key < rest * most ? key / most : rest + (key - rest * most) / (most - 1);
    if (owner < shard) ++job.begin;
    if (owner == shard) ++job.keys;
  }
  for (size_t number = 0; number < all.size(); ++number) {
    Referee::NamedJob parameter;
    parameter.handler = PlainHandlerOf(scenario.parameters[number], scenario.training);
    if (scenario.parameters[number].has_table()) {
      parameter.row_width = scenario.parameters[number].shape(0);
    }
    for (uint64_t key = all[number].begin; key < all[number].end; ++key) {
      if (key < job.begin || key >= job.begin + job.keys) continue;
      if (parameter.keys == 0) parameter.begin = key - job.begin;
      ++parameter.keys;
    }
    job.parameters.push_back(std::move(parameter));
  }
  job.born.resize(job.keys);
  job.row_width = static_cast<uint32_t>(WidestRow(scenario));
  job.born_rows = RowsOfTablesAtBirth(scenario, shard);
  return job;
}

}  // namespace

Referee::Job JobOf(const Scenario& scenario, ShardId shard) {
  Referee::Job job;
  job.epoch = kEpoch;
  job.least_window = kFewestWindowRows;
  job.block_rows = kDriftBlockRows;
  job.first_blocks = kFirstDriftBlocks;
  job.workers = scenario.workers;
  job.first_workers = scenario.resizes() ? scenario.first_workers : scenario.workers;
  job.shards = scenario.shards;
  job.classes = static_cast<uint32_t>(scenario.classes);
  job.numeric = static_cast<uint32_t>(scenario.numeric);
  job.training = scenario.training;
  job.shard = static_cast<int32_t>(shard);
  job.alone = scenario.shards == 1;
  if (scenario.external()) return WithParameters(scenario, shard, std::move(job));
  // Balanced and contiguous: whoever owns key k comes from k alone, by counting.
  const uint64_t per_feature = FloatsPerFeature(scenario);
  const uint64_t dense = scenario.wide ? scenario.numeric : scenario.features();
  job.race_begin = (dense + 1) * per_feature;
  job.newton_begin = job.race_begin + FloatsOfRace(scenario);
  const uint64_t linear = job.newton_begin + FloatsOfNewton(scenario);
  const std::vector<float> network = NetworkAtBirth(scenario, linear);
  const uint64_t keys = linear + network.size();
  const uint64_t penalised = dense * per_feature;
  for (ShardId s = 0; s < shard; ++s)
    job.begin += (keys + scenario.shards - 1 - uint64_t{s}) / scenario.shards;
  job.keys = (keys + scenario.shards - 1 - uint64_t{shard}) / scenario.shards;
  job.penalised_keys = std::min(job.keys, penalised - std::min(penalised, job.begin));
  job.linear_keys = std::min(job.keys, linear - std::min(linear, job.begin));
  job.born.resize(linear);
  job.born.insert(job.born.end(), network.begin(), network.end());
  job.born = {job.born.begin() + static_cast<ptrdiff_t>(job.begin),
              job.born.begin() + static_cast<ptrdiff_t>(job.begin + job.keys)};
  job.born_rows = RowsAtBirth(scenario, shard);
  if (scenario.has_rows()) {
    job.row_linear = static_cast<uint32_t>(per_feature);
    job.row_width = static_cast<uint32_t>(per_feature + RandomFloatsOfRow(scenario));
  }
  if (scenario.penalises_rows() &&
      scenario.training.optimizer().kind() != Training::Optimizer::FTRL) {
    job.row_l2 = static_cast<float>(scenario.training.l2());
  }
  return job;
}

}  // namespace millrace::simulation
