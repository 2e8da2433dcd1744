// Where users want the shards of a simulated job.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "messages/master.pb.h"
#include "processors/master_processor.h"
#include "tests/simulation/random.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"

namespace millrace::simulation {

inline constexpr uint32_t kSimulatedShards = 3;

// Also one to a process, or of a shard, that is not there.
inline ControlRecord DrawMove(Random& random) {
  ControlRecord record = NewControl();
  record.mutable_move()->set_shard(static_cast<uint32_t>(random.Below(kSimulatedShards + 1)));
  record.mutable_move()->set_rank(static_cast<uint32_t>(random.Below(3)));
  return record;
}

// Told of each record of `control` before it is folded, with the state then.
class ShardMoves {
 public:
  // What happened, for coverage; "" where nothing did.
  std::string Note(const std::string& value, const MasterProcessor& before) {
    const StatusOr<ControlRecord> record = DecodeControl(value, kMasterEpoch);
    return record.ok() ? Note(*record, before) : "";
  }

  std::string Note(const ControlRecord& record, const MasterProcessor& before) {
    const MasterState state = before.state();
    if (state.plan().groups().empty()) return "";
    const uint32_t servers = state.plan().groups(0).count();
    // All are dealt out again.
    if (record.has_plan() && record.plan().groups(0).count() != servers) moved_.clear();
    if (!record.has_move() || state.phase() != MasterState::ACTIVE) return "";
    const ShardMove& move = record.move();
    if (move.shard() >= kSimulatedShards || move.rank() >= servers) return "";
    for (const ProcessState& process : before.processes()) {
      const bool is_over =
          process.phase() == ProcessState::ENDED || process.phase() == ProcessState::FAILED;
      const bool is_taker =
          process.process().group() == "server" && process.process().rank() == move.rank();
      if (is_taker && is_over) return "";
    }
    moved_[move.shard()] = move.rank();
    return "shard moved by a user";
  }

  // By shard: the rank that has it.
  const std::map<uint32_t, uint32_t>& moved() const { return moved_; }

 private:
  std::map<uint32_t, uint32_t> moved_;
};

}  // namespace millrace::simulation
