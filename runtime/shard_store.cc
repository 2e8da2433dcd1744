#include "runtime/shard_store.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>

#include "base/big_endian.h"
#include "runtime/checkpoint.h"
#include "stores/rocksdb_byte_map.h"

namespace millrace {
namespace {

std::string ShardFolder(const JobConfig& config, ShardId shard) {
  return config.server().data_dir() + "/" + config.name() + "-shard-" + std::to_string(shard);
}

std::string ReplicaFolder(const JobConfig& config, ShardId shard) {
  return ShardFolder(config, shard) + "-replica";
}

}  // namespace

StatusOr<std::unique_ptr<OrderedByteMap>> OpenShardStore(const JobConfig& config, ShardId shard) {
  const std::string own = ShardFolder(config, shard);
  const std::string replica = ReplicaFolder(config, shard);
  std::error_code ignored;
  if (!std::filesystem::exists(own, ignored) && std::filesystem::exists(replica, ignored)) {
    std::error_code error;
    std::filesystem::rename(replica, own, error);
    if (error) {
      return absl::UnavailableError("cannot rename " + replica + " to " + own + ": " +
                                    error.message());
    }
    spdlog::info("shard {}: takes over from the replica that was kept here", shard);
  }
  return OpenRocksDb(own);
}

StatusOr<std::unique_ptr<OrderedByteMap>> OpenReplicaStore(const JobConfig& config, ShardId shard) {
  return OpenRocksDb(ReplicaFolder(config, shard));
}

Status RemoveReplicaStore(const JobConfig& config, ShardId shard) {
  const std::string folder = ReplicaFolder(config, shard);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError("cannot remove " + folder + ": " + error.message());
}

StatusOr<Offset> ParametersOffsetOf(const OrderedByteMap& store) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                            store.Get(kParametersOffsetKey));
  if (!value) return 0;
  const std::optional<uint64_t> offset = DecodeBigEndian64(*value);
  if (!offset) return absl::DataLossError("a store with a damaged position");
  return static_cast<Offset>(*offset);
}

}  // namespace millrace
