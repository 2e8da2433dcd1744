// The copies of shards on a server's disk: where they are, and which one is opened.
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

// The copy that an opened shard starts from.
struct ShardCopy {
  enum class Source {
    kNothing,      // everything is read from `parameters`, or the job has not started
    kDisk,         // its own store
    kReplicaHere,  // the replica that this process kept while another one hosted the shard
    kPeer,         // a replica that another server sent
  };
  Source source = Source::kNothing;
  std::string peer{};  // kPeer: its address
  uint64_t bytes = 0;  // of its files
  std::string folder{};
  std::unique_ptr<DiskByteMap> store{};
};

// Fetches a copy of the shard into a folder that does not exist yet; returns the peer's address.
// Empty: no server has a copy.
using FetchCopy =
    std::function<StatusOr<std::optional<std::string>>(ShardId shard, const std::string& folder)>;

// The store of a shard that this process hosts. If there is none, the replica that this process has
// kept of the shard becomes its store, or a copy that `fetch` (may be null) gets: every copy is a
// prefix of `parameters`, so any copy is valid.
//
// A process that hangs keeps its folder locked while it is replaced. The new one then uses another
// folder (NAME.2, NAME.3 ..) and logs this. Of several unlocked folders the one with the highest
// offset is used, and the others are removed, since it contains all that they do.
StatusOr<ShardCopy> OpenShardStore(const JobConfig& config, ShardId shard, const FetchCopy& fetch);
// Removes the folder of a copy. REQUIRES: this process has closed its store. FailedPrecondition
// when another process has the store open; nothing is removed then.
Status RemoveShardStore(const ShardCopy& copy);
// The same of all of the shard's stores that this process has, for a shard that another process
// hosts from now on.
Status RemoveShardStores(const JobConfig& config, ShardId shard);

// The replica that this process keeps of a shard that another one hosts.
StatusOr<std::unique_ptr<DiskByteMap>> OpenReplicaStore(const JobConfig& config, ShardId shard);
// Removes the replica's folder. REQUIRES: this process has closed the replica. FailedPrecondition
// when another process has it open; nothing is removed then.
Status RemoveReplicaStore(const JobConfig& config, ShardId shard);
// Moves the replica to a folder that no program reads, and returns that folder; the user decides
// whether to keep it. REQUIRES and errors are those of RemoveReplicaStore.
StatusOr<std::string> SetReplicaStoreAside(const JobConfig& config, ShardId shard);

// The folder of a copy of the replica while it is sent to another server, another one for each
// `number`. It is on the replica's own disk, so that the copy consists of hard links.
std::string FrozenReplicaFolder(const JobConfig& config, ShardId shard, uint64_t number);
// Removes the folders of such copies that a crash has left. REQUIRES: this process has the replica
// open, so that no other process sends copies of it.
void RemoveFrozenReplicas(const JobConfig& config, ShardId shard);

}  // namespace millrace
