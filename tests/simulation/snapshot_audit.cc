#include "tests/simulation/snapshot_audit.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "topics/partitioning.h"

namespace millrace::simulation {
namespace {

bool SameFloats(const float* a, const float* b, size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0;
}

bool SamePart(const SnapshotAudit::Part& a, const SnapshotAudit::Part& b) {
  return a.clocks == b.clocks && a.left == b.left && a.weights.size() == b.weights.size() &&
         SameFloats(a.weights.data(), b.weights.data(), a.weights.size()) && a.rows == b.rows;
}

std::string NameOf(uint64_t id, ShardId shard) {
  return "the part of shard " + std::to_string(shard) + " of snapshot " + std::to_string(id);
}

}  // namespace

Clock SnapshotAudit::RoundsOf(const Part& part) { return *std::ranges::max_element(part.clocks); }

std::string SnapshotAudit::Add(uint64_t id, ShardId shard, Part part) {
  is_of_other_clocks_ = false;
  std::map<ShardId, Part>& parts = parts_[id];
  const auto there = parts.find(shard);
  if (there != parts.end()) {
    return SamePart(there->second, part) ? ""
                                         : NameOf(id, shard) + " is written twice, and differs";
  }
  for (const auto& [other, of_other] : parts) {
    if (of_other.clocks != part.clocks) {
      is_of_other_clocks_ = true;
      return NameOf(id, shard) + " is not at the clocks of shard " + std::to_string(other);
    }
  }
  parts.emplace(shard, std::move(part));
  return "";
}

bool SnapshotAudit::left_alike(uint64_t id) const {
  const std::map<ShardId, Part>& parts = parts_.at(id);
  return std::ranges::all_of(
      parts, [&](const auto& entry) { return entry.second.left == parts.begin()->second.left; });
}

std::set<Clock> SnapshotAudit::Rounds() const {
  std::set<Clock> rounds;
  for (const auto& [id, parts] : parts_) {
    for (const auto& [shard, part] : parts) rounds.insert(RoundsOf(part));
  }
  return rounds;
}

std::string SnapshotAudit::Check(const Scenario& scenario,
                                 const std::map<Clock, std::vector<float>>& states) const {
  const std::vector<EmbeddingId> ids = AllIds(scenario);
  for (const auto& [id, parts] : parts_) {
    for (const auto& [shard, part] : parts) {
      const auto found = states.find(RoundsOf(part));
      if (found == states.end()) {
        return NameOf(id, shard) + " is at a round that training in one process does not have: " +
               std::to_string(uint64_t{RoundsOf(part)});
      }
      const std::vector<float>& right = found->second;
      bool same = SameFloats(right.data() + part.begin, part.weights.data(), part.weights.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ShardOfEmbedding(ids[i], scenario.shards) != shard) continue;
        const std::vector<float>& row = part.rows.at(ids[i]);
        const size_t from_end = (ids.size() - i) * row.size();
        same = same && SameFloats(right.data() + (right.size() - from_end), row.data(), row.size());
      }
      if (!same) return NameOf(id, shard) + " is not what training in one process has there";
    }
  }
  return "";
}

}  // namespace millrace::simulation
