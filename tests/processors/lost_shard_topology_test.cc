// A job goes on when nothing is left of a shard, whoever dies meanwhile.
#include <set>
#include <string>

#include "tests/processors/topology.h"

namespace millrace {
namespace {

constexpr Clock kClocks = (kRows + kBatchRows - 1) / kBatchRows;

Training Under(Training::Consistency::Model model) {
  Training training = Sequential();
  training.mutable_consistency()->set_model(model);
  return training;
}

void LoseShards(Training::Consistency::Model model, double deaths) {
  int beyond_help = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 4,
                         .shards = 1 + seed % 3,
                         .training = Under(model),
                         .rows_first = seed % 5 != 0};
    if (deaths > 0 && job.workers == 1) continue;  // with it the last weights would be gone
    TestedTopology topology(job, seed);
    int left = 1 + static_cast<int>(seed % 2);
    std::set<ShardId> lost;
    topology.meanwhile = [&](std::mt19937& random) {
      if (left == 0 || random() % 60 != 0) return;
      const auto shard = static_cast<ShardId>(random() % job.shards);
      // Before that its log is still whole.
      for (const auto& [worker, entry] : topology.server(shard).clocks().entries()) {
        if (entry.clock < 2 || entry.left) return;
      }
      --left;
      lost.insert(shard);
      topology.LoseShard(shard);
    };
    topology.Run(deaths);  // expects that everybody leaves
    if (deaths > 0 && topology.IsBeyondHelp()) {
      ++beyond_help;
      continue;
    }
    for (ShardId shard = 0; shard < job.shards; ++shard) {
      EXPECT_FALSE(topology.server(shard).state_lost()) << shard;
      for (const auto& [worker, entry] : topology.server(shard).clocks().entries()) {
        SCOPED_TRACE("worker " + std::to_string(worker) + ", shard " + std::to_string(shard));
        // Of a worker that was started again nobody may know how far its rows were counted.
        const bool is_known = deaths == 0 || !lost.contains(shard);
        EXPECT_TRUE(deaths > 0 || entry.clock == kClocks) << entry.clock;
        EXPECT_TRUE(!is_known || topology.server(shard).rows_end(worker) == kRows);
      }
    }
  }
  EXPECT_LE(beyond_help, 2) << "seldom";
}

TEST(LostShardOfTopology, SequentialJobGoesOn) { LoseShards(Training::Consistency::SEQUENTIAL, 0); }

TEST(LostShardOfTopology, EventualJobGoesOn) { LoseShards(Training::Consistency::EVENTUAL, 0); }

TEST(LostShardOfTopology, SequentialJobGoesOnAlthoughWorkersDie) {
  LoseShards(Training::Consistency::SEQUENTIAL, 0.02);
}

// A worker that was restarted must not be set back where the other shards do not have it.
TEST(LostShardOfTopology, EventualJobGoesOnAlthoughWorkersDie) {
  LoseShards(Training::Consistency::EVENTUAL, 0.02);
}

}  // namespace
}  // namespace millrace
