// The ordered byte map without a disk: for the simulator and for tests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/ordered_byte_map.h"

namespace millrace {

// A crash loses what a disk may lose: the last batches since the last Flush.
class MemoryByteMap final : public OrderedByteMap {
 public:
  StatusOr<std::optional<std::string>> Get(std::string_view key) const override;
  Status Write(const WriteBatch& batch) override;
  Status Flush() override;
  // Copies the range before it visits, so that `visit` may call the map.
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view key, std::string_view value)>& visit)
      const override;

  // The number of batches that a crash may lose.
  size_t unflushed_batches() const;
  // The process died: the last `batches_lost` batches are gone, and at most all unflushed ones;
  // what is left is what a restarted process finds on its disk, so it can no longer be lost.
  void Crash(size_t batches_lost);
  // A copy of the disk: independent of this map from now on, with the same batches unflushed.
  std::unique_ptr<MemoryByteMap> Clone() const;

 private:
  // What an unflushed batch replaced, so that a crash can put it back: the reads, which are many,
  // look into one map only, and the crashes, which are few, pay.
  using Undo = std::vector<WriteBatch::Change>;

  void Apply(const WriteBatch::Change& change);

  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> entries_;
  std::vector<Undo> unflushed_;
};

}  // namespace millrace
