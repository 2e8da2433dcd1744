#include "processors/vector_clock.h"

#include "base/check.h"

namespace millrace {

VectorClock::VectorClock(uint32_t workers) {
  for (WorkerId worker = 0; worker < workers; ++worker) {
    entries_[worker] = Entry{};
    Count(0);
  }
}

void VectorClock::Count(Clock clock) {
  ++counts_[clock];
  ++present_;
}

void VectorClock::Uncount(Clock clock) {
  const auto found = counts_.find(clock);
  MILLRACE_CHECK(found != counts_.end() && found->second > 0 && present_ > 0);
  if (--found->second == 0) counts_.erase(found);
  --present_;
}

VectorClock::Entry& VectorClock::EntryOf(WorkerId worker) {
  const auto found = entries_.find(worker);
  MILLRACE_CHECK(found != entries_.end());
  return found->second;
}

const VectorClock::Entry& VectorClock::EntryOf(WorkerId worker) const {
  const auto found = entries_.find(worker);
  MILLRACE_CHECK(found != entries_.end());
  return found->second;
}

void VectorClock::Advance(WorkerId worker) {
  Entry& entry = EntryOf(worker);
  MILLRACE_CHECK(!entry.left);
  Uncount(entry.clock);
  Count(++entry.clock);
}

void VectorClock::Leave(WorkerId worker) {
  Entry& entry = EntryOf(worker);
  MILLRACE_CHECK(!entry.left);
  Uncount(entry.clock);
  entry.left = true;
}

void VectorClock::Set(WorkerId worker, Entry entry) {
  Entry& now = EntryOf(worker);
  if (!now.left) Uncount(now.clock);
  if (!entry.left) Count(entry.clock);
  now = entry;
}

std::optional<Clock> VectorClock::Min() const {
  if (counts_.empty()) return std::nullopt;
  return counts_.begin()->first;
}

std::optional<Clock> VectorClock::Max() const {
  if (counts_.empty()) return std::nullopt;
  return counts_.rbegin()->first;
}

uint64_t VectorClock::Staleness() const { return counts_.empty() ? 0 : *Max() - *Min(); }

}  // namespace millrace
