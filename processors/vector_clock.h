// How far each worker has come, as the server counts it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/types.h"

namespace millrace {

// One clock per member: the number of its updates that were accepted. A member that has left keeps
// its clock but is in no minimum. Ordered, so that every iteration is the same everywhere.
// Not thread-safe.
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
  Clock clock(WorkerId worker) const { return entries_.at(worker).clock; }
  bool left(WorkerId worker) const { return entries_.at(worker).left; }

  void Advance(WorkerId worker) { ++entries_.at(worker).clock; }
  void Leave(WorkerId worker) { entries_.at(worker).left = true; }
  void Set(WorkerId worker, Entry entry) { entries_[worker] = entry; }

  // Over the members that have not left; empty when all have.
  std::optional<Clock> Min() const;
  std::optional<Clock> Max() const;
  // Max() - Min(), 0 when nobody is left.
  uint64_t Staleness() const;
  bool AllLeft() const { return !Min().has_value(); }

  const std::map<WorkerId, Entry>& entries() const { return entries_; }
  bool operator==(const VectorClock&) const = default;

 private:
  std::map<WorkerId, Entry> entries_;
};

}  // namespace millrace
