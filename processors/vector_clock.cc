#include "processors/vector_clock.h"

#include <algorithm>

namespace millrace {

VectorClock::VectorClock(uint32_t workers) {
  for (WorkerId worker = 0; worker < workers; ++worker) entries_[worker] = Entry{};
}

std::optional<Clock> VectorClock::Min() const {
  std::optional<Clock> min;
  for (const auto& [worker, entry] : entries_) {
    if (!entry.left) min = std::min(min.value_or(entry.clock), entry.clock);
  }
  return min;
}

std::optional<Clock> VectorClock::Max() const {
  std::optional<Clock> max;
  for (const auto& [worker, entry] : entries_) {
    if (!entry.left) max = std::max(max.value_or(entry.clock), entry.clock);
  }
  return max;
}

uint64_t VectorClock::Staleness() const {
  const std::optional<Clock> min = Min();
  return min ? *Max() - *min : 0;
}

}  // namespace millrace
