// Takes a copy of a shard from another server: the asking side of GetReplica.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "durability/replicas/tls.h"
#include "messages/replica.pb.h"

namespace millrace {

// How long another server may take before it is given up.
struct ReplicaTimeouts {
  std::chrono::milliseconds describe = std::chrono::seconds(2);
  // Until the first piece comes: what is in its memory only is written to a file before.
  std::chrono::milliseconds first_piece = std::chrono::seconds(5);
  std::chrono::milliseconds next_piece = std::chrono::seconds(3);
  // Once it was waited for so long in all, it must have sent so much for each second of that. (To
  // read the topic is at least as quick.)
  std::chrono::milliseconds before_judging = std::chrono::seconds(4);
  double least_bytes_per_second = 1 << 20;
};

// The copies' descriptions, or why there is none, in the order of the addresses. All are asked at
// once. Errors name the address.
std::vector<StatusOr<ReplicaDescription>> DescribeReplicas(
    const std::vector<std::string>& addresses, const ReplicaRequest& request, const ReplicaTls& tls,
    const ReplicaTimeouts& timeouts);

struct ReplicaTransfer {
  uint64_t bytes = 0;  // that have come
  uint64_t bytes_total = 0;
  double seconds = 0;  // since it began
};

struct ReplicaFetch {
  std::string address;
  ReplicaRequest request;
  // Where the store is to stand. Nothing is there, and its parent is a folder.
  std::string folder;
  // Looks at the files before they get that name. An error of it is the fetch's.
  std::function<Status(const std::string& files, const ReplicaDescription& copy)> check;
  // Called from time to time while pieces come.
  std::function<void(const ReplicaTransfer& transfer)> on_progress;
  ReplicaTimeouts timeouts{};
};

// Blocks until the store is there, or there is a reason why it does not come from this server; then
// nothing of it is left on the disk. Unavailable, DeadlineExceeded: the other side is away, went
// away, or is too slow. DataLoss: what came is not what was sent, or not what was asked for.
// Cancelled: by `stop`.
StatusOr<ReplicaTransfer> FetchReplica(const ReplicaFetch& fetch, const ReplicaTls& tls,
                                       const std::atomic<bool>& stop);

}  // namespace millrace
