#include "producer/read_ends.h"

#include <algorithm>
#include <utility>

namespace millrace {

void ReadEnds::Begin(std::vector<Offset> ends) {
  ends_ = std::move(ends);
  finished_.clear();
}

bool ReadEnds::Counts(int32_t partition, Offset offset) {
  if (ends_.empty() || offset < ends_[static_cast<size_t>(partition)]) return true;
  finished_.insert(partition);
  return false;
}

Offset ReadEnds::Until(int32_t partition, Offset end) const {
  return ends_.empty() ? end : std::min(end, ends_[static_cast<size_t>(partition)]);
}

bool ReadEnds::IsAtEnd(const std::function<Offset(int32_t partition)>& next) const {
  if (ends_.empty()) return false;
  for (size_t i = 0; i < ends_.size(); ++i) {
    const auto partition = static_cast<int32_t>(i);
    if (!IsAtEnd(partition, next(partition))) return false;
  }
  return true;
}

bool ReadEnds::IsAtEnd(int32_t partition, Offset next) const {
  const auto index = static_cast<size_t>(partition);
  return index < ends_.size() && (next >= ends_[index] || finished_.contains(partition));
}

bool ReadEnds::NoteEnd(int32_t partition, int32_t partitions) {
  at_end_.insert(partition);
  const bool all = ends_.empty() && at_end_.size() >= static_cast<size_t>(partitions);
  return all && !std::exchange(was_at_end_, true);
}

}  // namespace millrace
