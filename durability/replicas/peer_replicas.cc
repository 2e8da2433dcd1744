#include "durability/replicas/peer_replicas.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "durability/checkpoints/shard_store.h"
#include "rpc/address.h"
#include "stores/rocksdb_byte_map.h"
#include "tasks/checkpoint.h"
#include "topics/replica_placement.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

// A transfer that takes longer than this says how it gets on, as often.
constexpr std::chrono::seconds kSayEvery(2);
constexpr double kMiB = 1 << 20;

// That the store opens, and is as far on as it was said to be.
Status CheckCopy(const std::string& files, const ReplicaDescription& copy) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<DiskByteMap> store, OpenRocksDb(files));
  MILLRACE_ASSIGN_OR_RETURN(const Offset offset, ReadParametersOffset(*store));
  if (offset >= copy.parameters_offset()) return absl::OkStatus();
  return absl::DataLossError("the received replica ends at offset " + std::to_string(offset) +
                             " of parameters, but the sender announced offset " +
                             std::to_string(copy.parameters_offset()));
}

}  // namespace

StatusOr<RpcTls> ReadTlsOfReplicas(const JobConfig& config) {
  const Server& server = config.server();
  return ReadRpcTls(server.replica_tls_cert(), server.replica_tls_key(), server.replica_tls_ca());
}

PeerReplicas::PeerReplicas(const JobConfig& config, RpcTls tls, const std::vector<ShardId>& hosted,
                           const std::atomic<bool>& stop, const ReplicaTimeouts& timeouts)
    : config_(config),
      tls_(std::move(tls)),
      server_(hosted.empty() ? ShardId(0) : hosted.front()),
      stop_(stop),
      timeouts_(timeouts) {}

StatusOr<std::optional<std::string>> PeerReplicas::Fetch(const std::vector<ReplicaOffer>& offers,
                                                         ShardId shard, const std::string& folder) {
  std::vector<std::string> addresses;
  for (const ReplicaOffer& offer : offers) {
    // An own offer is that of an earlier process.
    if (offer.server() == server_ || offer.layout() != config_.layout()) continue;
    if (std::ranges::find(offer.shard(), uint32_t{shard}) == offer.shard().end()) continue;
    if (offer.tls() && !tls_.used()) {
      spdlog::warn(
          "shard {}: {} serves its replica by TLS only; to use it, give --replica-tls-ca (and "
          "--replica-tls-cert and --replica-tls-key)",
          shard, offer.address());
      continue;
    }
    if (!MayConnect(offer.address(), tls_, config_.server().replica_insecure())) {
      spdlog::warn(
          "shard {}: the replica at {} is not fetched: it is on another machine, and this server "
          "has no mutual TLS; give --replica-tls-cert, --replica-tls-key and --replica-tls-ca, or "
          "--replica-insecure in a network that you trust",
          shard, offer.address());
      continue;
    }
    addresses.push_back(offer.address());
  }
  if (addresses.empty()) return std::nullopt;
  ReplicaRequest request;
  request.set_job(LayoutName(config_));
  request.set_epoch(config_.epoch());
  request.set_shard(shard);
  const auto described = DescribeReplicas(addresses, request, tls_, timeouts_);
  std::vector<std::pair<Offset, std::string>> copies;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (described[i].ok()) {
      copies.emplace_back(described[i]->parameters_offset(), addresses[i]);
    } else {
      spdlog::warn("shard {}: no usable replica from {}", shard, TextOf(described[i].status()));
    }
  }
  // The furthest first; of equal ones as they were offered.
  std::ranges::stable_sort(copies, std::ranges::greater(), &std::pair<Offset, std::string>::first);
  for (const auto& [offset, address] : copies) {
    if (stop_) return absl::CancelledError("stopped");
    ReplicaFetch fetch;
    fetch.address = address;
    fetch.request = request;
    fetch.folder = folder;
    fetch.check = CheckCopy;
    fetch.timeouts = timeouts_;
    auto next_word = steady_clock::now() + kSayEvery;
    fetch.on_progress = [&](const ReplicaTransfer& transfer) {
      if (steady_clock::now() < next_word) return;
      next_word += kSayEvery;
      const auto bytes = static_cast<double>(transfer.bytes);
      spdlog::info("shard {}: received {:.0f} MiB of its replica from {}, {:.0f} %, {:.1f} MiB/s",
                   shard, bytes / kMiB, address,
                   100 * bytes / static_cast<double>(std::max<uint64_t>(1, transfer.bytes_total)),
                   bytes / kMiB / transfer.seconds);
    };
    const StatusOr<ReplicaTransfer> got = FetchReplica(fetch, tls_, stop_);
    if (got.ok()) {
      spdlog::info("shard {}: received its replica from {}: {:.1f} MiB in {:.2f} s", shard, address,
                   static_cast<double>(got->bytes) / kMiB, got->seconds);
      return address;
    }
    if (absl::IsCancelled(got.status()) && stop_) return got.status();
    spdlog::warn("shard {}: no usable replica from {}", shard, TextOf(got.status()));
  }
  spdlog::warn(
      "shard {}: no server served a usable replica; the whole partition of parameters is read",
      shard);
  return std::nullopt;
}

void WarnOfMissingReplicas(const std::vector<ShardId>& hosted, uint32_t shards, uint32_t wanted) {
  for (ShardId shard = 0; shard < shards; ++shard) {
    const uint32_t missing = ReplicasMissing(shard, hosted, shards, wanted);
    if (missing == 0) continue;
    spdlog::warn(
        "shard {}: {} of {} replicas missing: the next servers in the ring are this same process, "
        "which keeps one copy of a shard; give each server a process of its own (--server-ids)",
        shard, missing, wanted);
  }
}

StatusOr<std::unique_ptr<ReplicaServer>> ServeReplicas(const JobConfig& config, const RpcTls& tls,
                                                       const std::vector<ShardId>& hosted,
                                                       const std::vector<ShardId>& kept,
                                                       ReplicaSource& source,
                                                       JobRegistry& registry) {
  const Server& server = config.server();
  if (!server.has_replica_listen() || kept.empty() || hosted.empty()) return nullptr;
  ReplicaServerOptions options;
  options.job = LayoutName(config);
  options.epoch = config.epoch();
  options.listen = server.replica_listen();
  options.tls = tls;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ReplicaServer> serving,
                            ReplicaServer::Start(options, source));
  ReplicaOffer offer;
  offer.set_epoch(config.epoch());
  offer.set_server(hosted.front());
  offer.mutable_shard()->Add(kept.begin(), kept.end());
  offer.set_address(
      AdvertisedAddress(server.replica_listen(), server.replica_advertise(), serving->port()));
  offer.set_tls(tls.used());
  offer.set_layout(config.layout());
  MILLRACE_RETURN_IF_ERROR(registry.PublishOffer(offer));
  std::string shards;
  for (const ShardId shard : kept) shards += " " + std::to_string(shard);
  spdlog::info("replicas of shard{} are served at {}{}", shards, offer.address(),
               tls.used() ? ", by TLS" : "");
  return serving;
}

}  // namespace millrace
