// The only interface to local storage: an ordered map of bytes with atomic batches.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace millrace {

// Changes that happen together or not at all. Of several changes of a key the last one counts.
class WriteBatch {
 public:
  void Put(std::string key, std::string value) {
    changes_.push_back({std::move(key), std::move(value)});
  }
  void Delete(std::string_view key) { changes_.push_back({std::string(key), std::nullopt}); }
  void Clear() { changes_.clear(); }
  bool empty() const { return changes_.empty(); }

  struct Change {
    std::string key;
    std::optional<std::string> value;  // none: delete
  };
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

// Keys in the order of their bytes. Implementations: MemoryByteMap, RocksDbByteMap; one contract
// test for both. One writer at a time; reads may run beside it.
class OrderedByteMap {
 public:
  virtual ~OrderedByteMap() = default;

  // Empty when the key does not exist.
  virtual StatusOr<std::optional<std::string>> Get(std::string_view key) const = 0;
  // Visits those of `keys` that exist, by their index in `keys`, in any order: faster than as many
  // calls of Get. Concurrent writes may be visible for some keys and not for others. REQUIRES:
  // ascending.
  virtual Status GetMany(std::span<const std::string> keys,
                         const std::function<void(size_t i, std::string_view value)>& visit) const {
    MILLRACE_CHECK(std::ranges::is_sorted(keys));
    for (size_t i = 0; i < keys.size(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> value, Get(keys[i]));
      if (value) visit(i, *value);
    }
    return absl::OkStatus();
  }
  // Atomic: after a crash all of the batch is there or nothing of it, and batches are there in
  // the order in which they were written (the last ones may be missing, see Flush).
  virtual Status Write(const WriteBatch& batch) = 0;
  // As Write of a batch of these entries, for more of them than memory should hold. `entries` hands
  // one after the other to `take`, and returns its error if it fails; an error of `entries` is
  // returned, and nothing is written. REQUIRES: their keys ascend, each there once.
  using Take = std::function<Status(std::string_view key, std::string_view value)>;
  virtual Status WriteSortedRun(const std::function<Status(const Take& take)>& entries) {
    WriteBatch batch;
    MILLRACE_RETURN_IF_ERROR(entries([&](std::string_view key, std::string_view value) {
      MILLRACE_CHECK(batch.empty() || batch.changes().back().key < key);
      batch.Put(std::string(key), std::string(value));
      return absl::OkStatus();
    }));
    return batch.empty() ? absl::OkStatus() : Write(batch);
  }
  // Returns when all that was written survives the death of the process.
  virtual Status Flush() = 0;
  // Visits keys of [begin, end) in order (empty end: to the last key) until `visit` returns false:
  // the map as it was when Scan began, whatever is written meanwhile, by `visit` too.
  virtual Status Scan(
      std::string_view begin, std::string_view end,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) const = 0;
};

}  // namespace millrace
