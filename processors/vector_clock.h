// The clock of each worker, as the server counts it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/types.h"

namespace millrace {

// One clock per member: the number of its updates that were accepted. A member that has left keeps
// its clock but is in no minimum. Ordered, so that every iteration is the same everywhere. A change
// takes logarithmic time in the number of members. Not thread-safe.
class VectorClock {
 public:
  struct Entry {
    Clock clock = 0;
    bool left = false;
    bool operator==(const Entry&) const = default;
  };

  VectorClock() = default;
  // Members 0 .. workers - 1, all at clock 0.
  explicit VectorClock(uint32_t workers);

  bool Contains(WorkerId worker) const { return entries_.contains(worker); }
  // REQUIRES of both: a member.
  Clock clock(WorkerId worker) const { return EntryOf(worker).clock; }
  bool left(WorkerId worker) const { return EntryOf(worker).left; }

  // REQUIRES a member that has not left.
  void Advance(WorkerId worker);
  void Leave(WorkerId worker);
  // REQUIRES a member.
  void Set(WorkerId worker, Entry entry);

  // Over the members that have not left; empty when all have left. Both take constant time.
  std::optional<Clock> Min() const;
  std::optional<Clock> Max() const;
  // The highest that a member has or had when it left. Takes constant time.
  Clock Furthest() const { return std::max(Max().value_or(Clock(0)), furthest_left_); }
  // Those whose clock is in (after, last], ascending. Takes time for them only, and logarithmic
  // time to find them.
  std::vector<WorkerId> PresentIn(Clock after, Clock last) const;
  // Max() - Min(); 0 when all have left.
  uint64_t Staleness() const;
  bool AllLeft() const { return present_.empty(); }
  // Members that have not left.
  size_t present() const { return present_.size(); }

  const std::map<WorkerId, Entry>& entries() const { return entries_; }
  bool operator==(const VectorClock&) const = default;

 private:
  Entry& EntryOf(WorkerId worker);
  const Entry& EntryOf(WorkerId worker) const;

  std::map<WorkerId, Entry> entries_;
  std::set<std::pair<Clock, WorkerId>> present_;  // the members that have not left
  Clock furthest_left_ = 0;                       // of those that have
};

}  // namespace millrace
