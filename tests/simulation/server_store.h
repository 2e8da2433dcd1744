// The disk of a server, which may be full or broken, or die with its process.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "stores/ordered_byte_map.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// Of what a store takes at once: few records, so that a crash meets checkpoints half stored.
inline constexpr size_t kBatchBytes = 400;
// From here on the rows of a checkpoint are a sorted run: the rows of some are, of others not.
inline constexpr size_t kRunBytes = 100;

// Tells its host by a status and by `died` that the process ends in the middle of a call.
class ServerStore final : public OrderedByteMap {
 public:
  ServerStore(World& world, Disk& disk) : world_(world), disk_(disk) {}

  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    if (world_.Fault("disk that cannot be read", 0.001)) return Broken("an input/output error");
    return disk_.map->Get(key);
  }
  Status Write(const WriteBatch& batch) override {
    if (world_.Fault("full disk", world_.disk_errors)) return Broken("no space left on the device");
    return disk_.map->Write(batch);
  }
  Status WriteSortedRun(const std::function<Status(const Take& take)>& entries) override {
    world_.Count("sorted run of rows");
    return OrderedByteMap::WriteSortedRun(entries);
  }
  Status Flush() override {
    if (world_.Fault("crash between write and flush", 0.02)) {
      died_ = true;
      return absl::InternalError("the process has died");
    }
    if (world_.Fault("disk that fails to flush", world_.disk_errors))
      return Broken("an input/output error");
    return disk_.map->Flush();
  }
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view key, std::string_view value)>& visit)
      const override {
    return disk_.map->Scan(begin, end, visit);
  }
  bool died() const { return died_; }
  // It has said so, once: what comes afterwards may well succeed.
  bool broken() const { return broken_; }

 private:
  Status Broken(const char* why) const {
    broken_ = true;
    return absl::ResourceExhaustedError(why);
  }

  World& world_;
  Disk& disk_;
  bool died_ = false;
  mutable bool broken_ = false;
};

}  // namespace millrace::simulation
