#include "tasks/lease_reader.h"

#include <algorithm>
#include <tuple>

namespace millrace {

std::vector<LeaseReader::Step> LeaseReader::Follow(const std::vector<Wish>& wishes) {
  std::map<uint32_t, std::vector<Wish>> wishes_at;
  for (const Wish& wish : wishes) wishes_at[wish.partition].push_back(wish);
  std::vector<Step> steps;
  for (auto& [partition, reading] : readings_) {
    if (wishes_at.contains(partition) || !reading.worker) continue;
    reading.worker.reset();
    steps.push_back({Step::Kind::kHold, partition, {}});
  }
  for (const auto& [partition, here] : wishes_at) {
    Reading& reading = readings_[partition];
    const auto order = [&reading](const Wish& wish) {
      const bool is_read = reading.worker == wish.worker && reading.lease == wish.lease;
      return std::tuple(!is_read, wish.offset, wish.worker);
    };
    const Wish& wish = *std::ranges::min_element(here, {}, order);
    const bool was_held = !reading.worker.has_value();
    reading.worker = wish.worker;
    reading.lease = wish.lease;
    const bool is_there = (reading.stands || reading.seeks) && wish.offset == reading.next;
    if (!is_there) {
      reading.next = wish.offset;
      reading.stands = false;
      reading.seeks = true;
      steps.push_back({Step::Kind::kSeek, partition, wish.offset});
    } else if (was_held) {
      steps.push_back({Step::Kind::kGoOn, partition, wish.offset});
    }
  }
  return steps;
}

void LeaseReader::Sought(uint32_t partition) {
  Reading& reading = readings_[partition];
  reading.stands |= reading.seeks;
  reading.seeks = false;
}

std::optional<WorkerId> LeaseReader::Take(uint32_t partition, Offset offset) {
  const auto found = readings_.find(partition);
  if (found == readings_.end()) return std::nullopt;
  Reading& reading = found->second;
  if (!reading.stands || offset < reading.next) return std::nullopt;
  // A record that nobody takes is behind the reader.
  if (!reading.worker) {
    reading.stands = false;
    return std::nullopt;
  }
  reading.next = offset + 1;
  return reading.worker;
}

void LeaseReader::Lose(uint32_t partition) {
  const auto found = readings_.find(partition);
  if (found == readings_.end()) return;
  found->second.stands = false;
  found->second.seeks = false;
}

}  // namespace millrace
