#include "processors/vector_clock.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

VectorClock::VectorClock(uint32_t workers) {
  for (WorkerId worker = 0; worker < workers; ++worker) {
    entries_[worker] = Entry{};
    present_.emplace(0, worker);
  }
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
  auto place = present_.extract({entry.clock, worker});  // so that nothing is allocated
  MILLRACE_CHECK(!place.empty());
  place.value().first = ++entry.clock;
  present_.insert(std::move(place));
}

void VectorClock::Leave(WorkerId worker) {
  Entry& entry = EntryOf(worker);
  MILLRACE_CHECK(!entry.left);
  present_.erase({entry.clock, worker});
  entry.left = true;
  furthest_left_ = std::max(furthest_left_, entry.clock);
}

void VectorClock::Set(WorkerId worker, Entry entry) {
  Entry& now = EntryOf(worker);
  if (!now.left) present_.erase({now.clock, worker});
  if (entry.left) {
    furthest_left_ = std::max(furthest_left_, entry.clock);
  } else {
    present_.emplace(entry.clock, worker);
  }
  now = entry;
}

std::optional<Clock> VectorClock::Min() const {
  if (present_.empty()) return std::nullopt;
  return present_.begin()->first;
}

std::optional<Clock> VectorClock::Max() const {
  if (present_.empty()) return std::nullopt;
  return present_.rbegin()->first;
}

std::vector<WorkerId> VectorClock::PresentIn(Clock after, Clock last) const {
  std::vector<WorkerId> workers;
  for (auto at = present_.upper_bound({after, WorkerId(UINT32_MAX)});
       at != present_.end() && at->first <= last; ++at) {
    workers.push_back(at->second);
  }
  std::ranges::sort(workers);
  return workers;
}

uint64_t VectorClock::Staleness() const { return present_.empty() ? 0 : *Max() - *Min(); }

}  // namespace millrace
