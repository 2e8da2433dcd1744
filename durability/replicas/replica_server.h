// Serves copies of shards to other servers: the answering side of GetReplica.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "durability/replicas/tls.h"

namespace millrace {

// Who keeps the copies. Called by several threads at once.
class ReplicaSource {
 public:
  virtual ~ReplicaSource() = default;

  // Up to where the shard's partition of `parameters` is in the copy. NotFound: no copy, or nothing
  // whole is in it yet.
  virtual StatusOr<Offset> OffsetOf(ShardId shard) = 0;
  // A folder with the copy as it is now, whose files do not change any more; the caller removes it.
  virtual StatusOr<std::string> Freeze(ShardId shard) = 0;
};

struct ReplicaServerOptions {
  std::string job;
  uint64_t epoch = 1;
  std::string listen;  // HOST:PORT; port 0: a free one
  ReplicaTls tls;
  int most_streams = 4;  // at a time; a disk serves few better than many
  // A receiver that takes no piece for so long is given up.
  std::chrono::milliseconds piece_timeout = std::chrono::seconds(30);
};

class ReplicaServer {
 public:
  // `source` outlives the server. InvalidArgument or Unavailable when it cannot listen there.
  static StatusOr<std::unique_ptr<ReplicaServer>> Start(const ReplicaServerOptions& options,
                                                        ReplicaSource& source);
  // Ends the calls that run, waiting for a piece that is on its way.
  virtual ~ReplicaServer() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
