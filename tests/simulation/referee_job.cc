// What a shard is before anything is learnt, by other code than the shard's.
#include "tests/simulation/referee_job.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/hash.h"

namespace millrace::simulation {
namespace {

// The parameters of a network whose first key is `key`: each layer's weights are drawn by key and
// seed, then come its biases; in the end the output's weights.
std::vector<float> NetworkAtBirth(const Scenario& scenario, uint64_t key) {
  std::vector<float> network;
  if (scenario.training.model() != Training::DEEP_FM) return network;
  const Training::Embedding& embedding = scenario.training.embedding();
  const uint64_t start = Mix64(~embedding.seed());
  uint64_t inputs = scenario.ids * embedding.factors() + scenario.numeric;
  for (const uint32_t units : scenario.training.hidden()) {
    const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs)));
    for (uint64_t i = 0; i < inputs * units; ++i) {
      const auto draw = static_cast<double>(Mix64(start + key + network.size()) >> 40);
      network.push_back(limit * static_cast<float>(std::ldexp(draw, -23) - 1));
    }
    network.resize(network.size() + units);
    inputs = units;
  }
  network.resize(network.size() + inputs);
  return network;
}

// Of a linear model, the numbers that a feature has. An online learner has a weight of each of its
// five rates and a curvature; of two classes it has one score.
uint64_t FloatsPerFeature(const Scenario& scenario) {
  if (scenario.ids > 0) return 1;  // a factorization machine
  if (!scenario.online()) return scenario.classes;
  return 6 * (scenario.classes == 2 ? 1 : scenario.classes);
}

// What stands behind an online learner's bias: six losses and the number of rows of each class, up
// to a whole feature.
uint64_t FloatsOfRace(const Scenario& scenario) {
  if (!scenario.online()) return 0;
  uint64_t floats = 0;
  while (floats < 6 + scenario.classes) floats += FloatsPerFeature(scenario);
  return floats;
}

// The shard's embedding rows: linear weights are zero, the factors are drawn by id and seed.
std::map<uint64_t, std::vector<float>> RowsAtBirth(const Scenario& scenario, ShardId shard) {
  std::map<uint64_t, std::vector<float>> rows;
  const Training::Embedding& embedding = scenario.training.embedding();
  const auto limit = static_cast<float>(embedding.initial_limit());
  for (const EmbeddingId id : AllIds(scenario)) {
    if (Mix64(id) % scenario.shards != shard) continue;
    std::vector<float>& row = rows[id];
    if (scenario.wide) {
      row.resize(FloatsPerFeature(scenario));
      continue;
    }
    row.push_back(0);
    const uint64_t start = Mix64(Mix64(embedding.seed()) ^ id);
    for (uint32_t factor = 1; factor <= embedding.factors(); ++factor) {
      const auto draw = static_cast<double>(Mix64(start + factor) >> 40);
      row.push_back(limit * static_cast<float>(std::ldexp(draw, -23) - 1));
    }
  }
  return rows;
}

}  // namespace

Referee::Job JobOf(const Scenario& scenario, ShardId shard) {
  Referee::Job job;
  job.epoch = kEpoch;
  job.least_window = kFewestWindowRows;
  job.block_rows = kDriftBlockRows;
  job.first_blocks = kFirstDriftBlocks;
  job.workers = scenario.workers;
  job.shards = scenario.shards;
  job.classes = static_cast<uint32_t>(scenario.classes);
  job.numeric = static_cast<uint32_t>(scenario.numeric);
  job.training = scenario.training;
  job.shard = static_cast<int32_t>(shard);
  job.alone = scenario.shards == 1;
  // Balanced and contiguous: whoever owns key k comes from k alone, by counting.
  const uint64_t per_feature = FloatsPerFeature(scenario);
  const uint64_t dense = scenario.wide ? scenario.numeric : scenario.features();
  const uint64_t linear = (dense + 1) * per_feature + FloatsOfRace(scenario);
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
  if (scenario.ids > 0) job.row_width = 1 + scenario.training.embedding().factors();
  if (scenario.wide) job.row_width = job.row_linear = static_cast<uint32_t>(per_feature);
  if (scenario.wide && scenario.training.optimizer().kind() != Training::Optimizer::FTRL) {
    job.row_l2 = static_cast<float>(scenario.training.l2());
  }
  return job;
}

}  // namespace millrace::simulation
