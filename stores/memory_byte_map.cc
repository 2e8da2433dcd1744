#include "stores/memory_byte_map.h"

#include <algorithm>
#include <utility>

namespace millrace {

StatusOr<std::optional<std::string>> MemoryByteMap::Get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return std::optional<std::string>();
  return std::optional<std::string>(entry->second);
}

void MemoryByteMap::Apply(const WriteBatch::Change& change) {
  if (change.value) {
    entries_.insert_or_assign(change.key, *change.value);
  } else {
    entries_.erase(change.key);
  }
}

Status MemoryByteMap::Write(const WriteBatch& batch) {
  const std::lock_guard lock(mutex_);
  Undo undo;
  undo.reserve(batch.changes().size());
  for (const WriteBatch::Change& change : batch.changes()) {
    const auto entry = entries_.find(change.key);
    undo.push_back({change.key, entry == entries_.end()
                                    ? std::nullopt
                                    : std::optional<std::string>(std::move(entry->second))});
    Apply(change);
  }
  unflushed_.push_back(std::move(undo));
  return absl::OkStatus();
}

Status MemoryByteMap::Flush() {
  const std::lock_guard lock(mutex_);
  unflushed_.clear();
  return absl::OkStatus();
}

Status MemoryByteMap::Scan(
    std::string_view begin, std::string_view end,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) const {
  std::vector<std::pair<std::string, std::string>> range;
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.lower_bound(begin);
         entry != entries_.end() && (end.empty() || entry->first < end); ++entry) {
      range.emplace_back(*entry);
    }
  }
  for (const auto& [key, value] : range) {
    if (!visit(key, value)) break;
  }
  return absl::OkStatus();
}

size_t MemoryByteMap::unflushed_batches() const {
  const std::lock_guard lock(mutex_);
  return unflushed_.size();
}

void MemoryByteMap::Crash(size_t batches_lost) {
  const std::lock_guard lock(mutex_);
  for (size_t lost = std::min(batches_lost, unflushed_.size()); lost > 0; --lost) {
    // Backwards, since a batch may change a key more than once.
    for (auto change = unflushed_.back().rbegin(); change != unflushed_.back().rend(); ++change) {
      Apply(*change);
    }
    unflushed_.pop_back();
  }
  unflushed_.clear();
}

std::unique_ptr<MemoryByteMap> MemoryByteMap::Clone() const {
  const std::lock_guard lock(mutex_);
  auto clone = std::make_unique<MemoryByteMap>();
  clone->entries_ = entries_;
  clone->unflushed_ = unflushed_;
  return clone;
}

}  // namespace millrace
