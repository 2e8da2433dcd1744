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
#include "messages/replica.pb.h"
#include "rpc/tls.h"

namespace millrace {

// Time limits of a transfer.
struct ReplicaTimeouts {
  std::chrono::milliseconds describe = std::chrono::seconds(2);
  // Until the first message arrives: the server first writes to a file what only its memory has.
  std::chrono::milliseconds first_piece = std::chrono::seconds(5);
  std::chrono::milliseconds next_piece = std::chrono::seconds(3);
  // After this client has waited for so long in total, the server must have sent so many bytes for
  // each second of it. (Reading the topic is at least as fast.)
  std::chrono::milliseconds before_judging = std::chrono::seconds(4);
  double least_bytes_per_second = 1 << 20;
};

// The copies' descriptions, or why there is none, in the order of the addresses. All servers are
// asked at the same time. Errors name the address.
std::vector<StatusOr<ReplicaDescription>> DescribeReplicas(
    const std::vector<std::string>& addresses, const ReplicaRequest& request, const RpcTls& tls,
    const ReplicaTimeouts& timeouts);

struct ReplicaTransfer {
  uint64_t bytes = 0;  // received
  uint64_t bytes_total = 0;
  double seconds = 0;  // since it began
};

struct ReplicaFetch {
  std::string address;
  ReplicaRequest request;
  // The folder of the new store. It does not exist, and its parent is a folder.
  std::string folder;
  // Checks the files before they get that name. Its error is returned by the fetch.
  std::function<Status(const std::string& files, const ReplicaDescription& copy)> check;
  // Called from time to time while data arrives.
  std::function<void(const ReplicaTransfer& transfer)> on_progress;
  ReplicaTimeouts timeouts{};
};

// Blocks until the store is complete. After an error nothing of it is left on the disk.
// Unavailable, DeadlineExceeded: the server is unreachable or too slow. DataLoss: the data is
// damaged, or is not what was requested. Cancelled: by `stop`.
StatusOr<ReplicaTransfer> FetchReplica(const ReplicaFetch& fetch, const RpcTls& tls,
                                       const std::atomic<bool>& stop);

}  // namespace millrace
