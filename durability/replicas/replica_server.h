// Serves copies of shards to other servers: the answering side of GetReplica.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "rpc/tls.h"

namespace millrace {

// Where the copies are kept. Called by several threads at once.
class ReplicaSource {
 public:
  virtual ~ReplicaSource() = default;

  // The offset of the shard's partition of `parameters` up to which the copy has it. NotFound: no
  // copy, or no complete checkpoint in it yet.
  virtual StatusOr<Offset> OffsetOf(ShardId shard) = 0;
  // A folder with the copy as of now, whose files never change; the caller removes it.
  virtual StatusOr<std::string> Freeze(ShardId shard) = 0;
};

struct ReplicaServerOptions {
  std::string job;
  uint64_t epoch = 1;
  std::string listen;  // HOST:PORT; port 0: a free one
  RpcTls tls;
  int most_streams = 4;  // at a time; a disk serves few better than many
  // The transfer ends when the receiver accepts no data for so long.
  std::chrono::milliseconds piece_timeout = std::chrono::seconds(30);
};

class ReplicaServer {
 public:
  // `source` outlives the server. InvalidArgument or Unavailable when it cannot listen there.
  static StatusOr<std::unique_ptr<ReplicaServer>> Start(const ReplicaServerOptions& options,
                                                        ReplicaSource& source);
  // Ends the running calls; waits for the message that each is sending.
  virtual ~ReplicaServer() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
