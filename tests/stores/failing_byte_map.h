// A disk that can refuse, for tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "stores/memory_byte_map.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// Does what a MemoryByteMap does, while the status of an operation is OK; otherwise the operation
// does nothing and returns that status.
class FailingByteMap final : public OrderedByteMap {
 public:
  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    if (!get_status.ok()) return get_status;
    return map_.Get(key);
  }
  Status Write(const WriteBatch& batch) override {
    return write_status.ok() ? map_.Write(batch) : write_status;
  }
  Status Flush() override { return flush_status.ok() ? map_.Flush() : flush_status; }
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    return scan_status.ok() ? map_.Scan(begin, end, visit) : scan_status;
  }
  size_t unflushed_batches() const { return map_.unflushed_batches(); }

  Status get_status;
  Status write_status;
  Status flush_status;
  Status scan_status;

 private:
  MemoryByteMap map_;
};

}  // namespace millrace
