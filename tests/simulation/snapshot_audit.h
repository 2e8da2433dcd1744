// What the parts of a snapshot must be to each other, and to training in one process.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// One cut goes through all shards: each stands at the same clock of every worker. What each part
// holds besides is the referee's business, as the fold of its shard's log.
class SnapshotAudit {
 public:
  struct Part {
    std::vector<Clock> clocks;  // by worker
    std::vector<bool> left;     // the same
    uint64_t begin = 0;         // of the keys
    std::vector<float> weights;
    std::map<EmbeddingId, std::vector<float>> rows;
  };

  // Sequential: the rounds that are in it.
  static Clock RoundsOf(const Part& part);

  explicit SnapshotAudit(uint32_t shards) : shards_(shards) {}

  // Empty, or what is wrong with it. An instance that believes to be the shard's only one may write
  // a part that is there already.
  std::string Add(uint64_t id, ShardId shard, Part part);
  // Whether the last Add found the part at other clocks than another's, and did not take it.
  bool is_of_other_clocks() const { return is_of_other_clocks_; }
  bool whole(uint64_t id) const { return parts_.at(id).size() == shards_; }
  // Shards may differ in who of those at their cut has left, which takes nothing from the snapshot.
  bool left_alike(uint64_t id) const;

  // Sequential and in one pass: `states` is what training in one process has after so many rounds.
  std::set<Clock> Rounds() const;
  std::string Check(const Scenario& scenario,
                    const std::map<Clock, std::vector<float>>& states) const;

 private:
  uint32_t shards_;
  bool is_of_other_clocks_ = false;
  std::map<uint64_t, std::map<ShardId, Part>> parts_;
};

}  // namespace millrace::simulation
