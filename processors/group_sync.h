// What a shard of a group of servers exchanges with the same shard of other groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/server_options.h"
#include "stores/parameter_shard.h"

namespace millrace {

// A part of the shard's fold. An exchange with the neighbor has a number, and begins with a record
// of the shard's own log: what the shard has changed since the neighbor's last values (`last`) is
// the delta, and its own values of that moment are noted (`base`). Both are slots of the
// parameters, so every instance of the shard sends the same delta under the same number, as often
// as anybody may have missed it. The neighbor takes each number once, and answers with its values,
// which have the delta in them; a repeat it answers again, with those of that moment. The first
// answer counts: what the neighbor's values have more than `base` is added to those of now, and
// they are the new `last`. So a delta is in the neighbor's values once and in the shard's own once,
// whoever dies, and no message has to be sent together with a checkpoint.
//
// Not thread-safe.
class GroupSync {
 public:
  explicit GroupSync(const ServerOptions& options);

  // Slots that the shard needs besides those of its optimizer or handlers, behind them.
  static size_t SlotCount(const ServerOptions& options) { return options.neighbor ? 2 : 0; }
  // To be called before anything is loaded: the neighbor begins with the same values.
  void Begin(ParameterShard& shard) const;

  void CountUpdate() { ++updates_; }
  // Updates since the last exchange began; none while one is under way, or where there is no
  // neighbor.
  std::optional<uint64_t> updates_to_send() const;
  // Begins an exchange if one is due, and returns whether it did: after sync_interval updates, or
  // earlier if it is `wanted`. When all workers have left: if other groups have changed something,
  // and for the last time when these have ended.
  bool TryBegin(bool is_wanted, bool all_left, ParameterShard& shard);
  // The number of the exchange that is under way, whose delta the neighbor may have missed.
  std::optional<uint64_t> open() const;
  bool is_last() const { return has_last_; }
  // The delta of the exchange that is under way, key by key.
  std::vector<float> Delta(const ParameterShard& shard) const;

  enum class Taken {
    kApplied,
    kNotFinite,  // it counts as one of zeros
    kRepeated,   // and is to be answered, as both of those
    kOld,
    kImpossible,  // of a number that is not due
  };
  // REQUIRES: the group is one of options.sources; the slice is dense.
  Taken TakeDelta(uint32_t group, const Gradient::Delta& delta, ParameterShard& shard);
  // The newest of its deltas that was taken; 0: none was.
  uint64_t taken(uint32_t group) const { return taken_.at(group).number; }

  // The neighbor's answer. It counts for the keys that are `usable` (ascending ranges); the others
  // have no values yet, here or there. Returns false when it is not that of the exchange that is
  // under way. REQUIRES: the slice is dense.
  bool TakeValues(const Gradient::NeighborValues& values, std::span<const KeyRange> usable,
                  ParameterShard& shard);
  // The first values of these keys, which nobody has sent as a change, have been added to the
  // parameters, `first` key by key.
  void AddFirst(KeyRange keys, std::span<const float> first, ParameterShard& shard) const;

  // Whether nothing will come or go any more.
  bool ended(bool all_left) const { return all_left && SourcesEnded() && (has_last_ && !open_); }
  uint64_t exchanges() const { return number_ - (open_ ? 1 : 0); }
  uint64_t deltas_taken() const;
  // Changes of the parameters by other groups, since this object was made.
  uint64_t changes() const { return changes_; }

  void Save(ShardState& state) const;
  // InvalidArgument when Save cannot have made it.
  Status Load(const ShardState& state);

 private:
  struct Source {
    uint64_t number = 0;
    bool has_ended = false;
  };

  bool SourcesEnded() const;
  std::span<float> Slot(size_t slot, ParameterShard& shard) const;
  std::span<float> Base(ParameterShard& shard) const { return Slot(0, shard); }
  std::span<float> Last(ParameterShard& shard) const { return Slot(1, shard); }

  const uint32_t group_;
  const bool is_grouped_;
  const bool has_neighbor_;
  const uint64_t interval_;
  const size_t first_slot_;
  uint64_t number_ = 0;
  bool open_ = false;
  bool has_last_;  // without a neighbor from the beginning on
  uint64_t updates_ = 0;
  bool is_changed_ = false;  // by deltas, since the exchange began
  std::map<uint32_t, Source> taken_;
  uint64_t changes_ = 0;
};

}  // namespace millrace
