// Where the copies of shards stand on a server's disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "stores/rocksdb_byte_map.h"

namespace millrace {

// What a shard that is opened starts from.
struct ShardCopy {
  enum class Source {
    kNothing,      // all of it is in `parameters`, or the job has not begun
    kDisk,         // its own store
    kReplicaHere,  // the replica that this process kept of another's shard
    kPeer,         // a replica that another server has given
  };
  Source source = Source::kNothing;
  std::string peer{};  // kPeer: its address
  uint64_t bytes = 0;  // of its files
  std::string folder{};
  std::unique_ptr<DiskByteMap> store{};
};

// Puts a copy of the shard into a folder that is not there yet; returns from where. Empty: nobody
// has one.
using FetchCopy =
    std::function<StatusOr<std::optional<std::string>>(ShardId shard, const std::string& folder)>;

// The store of a shard that this process hosts. When there is none, a replica that this process has
// kept of it becomes its store, or one that `fetch` (may be null) gets: every copy is a prefix of
// `parameters`, so any will do.
//
// A process that hangs keeps its folder locked while it is replaced. The new one then takes a
// folder beside it (NAME.2, NAME.3 ..) and says so. Of several that are not locked the furthest is
// taken, and the others are removed, since the furthest has all that they have.
StatusOr<ShardCopy> OpenShardStore(const JobConfig& config, ShardId shard, const FetchCopy& fetch);
// Forgets it. REQUIRES: its store is closed.
Status RemoveShardStore(const ShardCopy& copy);

// The copy that this process keeps of a shard that another one hosts.
StatusOr<std::unique_ptr<DiskByteMap>> OpenReplicaStore(const JobConfig& config, ShardId shard);
// Forgets it. REQUIRES: it is not open.
Status RemoveReplicaStore(const JobConfig& config, ShardId shard);
// Moves it out of the way, where nobody but the user looks, who may know better what it is worth.
// Returns its folder. REQUIRES: it is not open.
StatusOr<std::string> SetReplicaStoreAside(const JobConfig& config, ShardId shard);

// Where a copy of the replica stands while it is given to another server, for each `number` another
// folder; on the replica's own disk, so that it costs nothing.
std::string FrozenReplicaFolder(const JobConfig& config, ShardId shard, uint64_t number);
// Removes what a crash has left of them. REQUIRES: the replica is open here, so that they are
// nobody else's.
void RemoveFrozenReplicas(const JobConfig& config, ShardId shard);

}  // namespace millrace
