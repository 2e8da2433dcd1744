// Fetches copies of this server's shards from other servers (GetReplica), and serves its replicas
// of theirs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "durability/replicas/replica_client.h"
#include "durability/replicas/replica_server.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "rpc/tls.h"

namespace millrace {

// Reads the TLS files that the configuration names.
StatusOr<RpcTls> ReadTlsOfReplicas(const JobConfig& config);

// Fetches copies from the servers that offer them. Used by one thread.
class PeerReplicas {
 public:
  // `hosted`: this server's shards, ascending. `config` and `stop` outlive it.
  PeerReplicas(const JobConfig& config, RpcTls tls, const std::vector<ShardId>& hosted,
               const std::atomic<bool>& stop, const ReplicaTimeouts& timeouts = {});

  // As FetchCopy is: fetches the copy with the highest offset; if that fails, the next one. Logs
  // which servers had none or failed, and why. `offers`: those of the job. Error: Cancelled when
  // stopped.
  StatusOr<std::optional<std::string>> Fetch(const std::vector<ReplicaOffer>& offers, ShardId shard,
                                             const std::string& folder);

 private:
  const JobConfig& config_;
  const RpcTls tls_;
  const ShardId server_;  // the first shard that is hosted here
  const std::atomic<bool>& stop_;
  const ReplicaTimeouts timeouts_;
};

// Warns of the shards of which this process, which hosts `hosted`, would keep several copies.
void WarnOfMissingReplicas(const std::vector<ShardId>& hosted, uint32_t shards, uint32_t wanted);

// Starts to serve `source`, which keeps copies of the shards `kept`, at the configured address, and
// publishes the offer. Null when no address is configured.
StatusOr<std::unique_ptr<ReplicaServer>> ServeReplicas(const JobConfig& config, const RpcTls& tls,
                                                       const std::vector<ShardId>& hosted,
                                                       const std::vector<ShardId>& kept,
                                                       ReplicaSource& source,
                                                       JobRegistry& registry);

}  // namespace millrace
