// A source of copies for tests: files in a folder, of shard 1 up to offset 100.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "durability/replicas/replica_server.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {

class KeptCopy final : public ReplicaSource {
 public:
  static constexpr ShardId kShard = 1;
  static constexpr Offset kOffset = 100;

  explicit KeptCopy(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  StatusOr<Offset> OffsetOf(ShardId shard) override {
    if (shard != kShard) return absl::NotFoundError("no copy of shard " + std::to_string(shard));
    return kOffset;
  }
  StatusOr<std::string> Freeze(ShardId) override {
    std::string frozen = folder_ / std::to_string(++frozen_);
    std::filesystem::create_directories(frozen);
    for (const auto& [name, bytes] : files_) {
      std::ofstream(frozen + "/" + name, std::ios::binary) << bytes;
    }
    return frozen;
  }

  int frozen() const { return frozen_; }
  // Of the frozen folders none is left.
  bool cleared() const { return std::filesystem::is_empty(folder_.path()); }

 private:
  const std::map<std::string, std::string> files_;
  TemporaryFolder folder_;
  std::atomic<int> frozen_ = 0;
};

}  // namespace millrace
