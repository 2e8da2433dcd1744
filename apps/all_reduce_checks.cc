#include "apps/all_reduce_checks.h"

#include <string>

#include "base/host_and_port.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

constexpr char kAllReduce[] = "--distribution-strategy AllReduce: ";

Status WrongForAllReduce(const std::string& what) {
  return absl::InvalidArgumentError(kAllReduce + what);
}

Status CheckHowItLearns(const Training& training) {
  if (training.schedule() != Training::ONE_PASS) {
    return WrongForAllReduce("it trains in one pass; leave out --schedule buffer");
  }
  if (training.sharding() == Training::DYNAMIC) {
    return WrongForAllReduce(
        "leases of rows need a server that counts the rows; leave out --sharding dynamic, or train "
        "with servers");
  }
  if (training.consistency().model() != Training::Consistency::SEQUENTIAL) {
    return WrongForAllReduce(
        "all workers end a round together, so it is sequential; leave out --consistency");
  }
  if (training.model() == Training::FACTORIZATION_MACHINE ||
      training.model() == Training::DEEP_FM) {
    return WrongForAllReduce(
        "it has no embedding rows, which fm and deepfm need; give --model softmax or network, or "
        "train with servers");
  }
  if (training.update().kind() == Training::Update::WEIGHT_CHANGE) {
    return WrongForAllReduce(
        "it sums updates, and weight changes are averaged; give --update gradient or online");
  }
  if (training.compression().values() != Training::Compression::FLOAT32 ||
      training.compression().top_k() != 1) {
    return WrongForAllReduce("updates are not compressed; leave out --compress and --top-k");
  }
  return absl::OkStatus();
}

Status CheckServers(const JobConfig& config) {
  if (config.shards() != 1) {
    return WrongForAllReduce("each WorkerApp has all weights, as one shard; leave out --shards");
  }
  const Server& server = config.server();
  if (server.replicas() > 0 || server.has_replica_listen()) {
    return WrongForAllReduce(
        "each WorkerApp has a copy of all weights; leave out --replicas and --replica-listen");
  }
  if (server.weights_from_workers()) {
    return WrongForAllReduce(
        "there are no servers whose weights could be lost; leave out --weights-from-workers");
  }
  if (server.has_from_snapshot()) {
    return WrongForAllReduce(
        "it cannot start from a snapshot yet; leave out --from-snapshot, or train with servers");
  }
  if (config.training().snapshot_every() > 0) {
    return WrongForAllReduce(
        "it takes no snapshot but that of its end; leave out --snapshot-every and "
        "--snapshots-kept");
  }
  if (server.evaluation_every() > 0) {
    return WrongForAllReduce(
        "it is evaluated at its end only; leave out --evaluation-every, or train with servers");
  }
  if (server.weights_at_checkpoints()) {
    return WrongForAllReduce(
        "the weights file is written at the end of the job; leave out --weights-at-checkpoints");
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckAllReduceConfig(const JobConfig& config) {
  const std::string& address = config.worker().master_address();
  if (config.worker().has_master_address() && !IsHostAndPort(address)) {
    return absl::InvalidArgumentError("--master-address " + address +
                                      ": a HOST:PORT is needed, 127.0.0.1:50001 say");
  }
  if (!TrainsByAllReduce(config.training())) {
    if (!config.worker().has_listen_host()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--listen-host: only WorkerApps that train by all-reduce listen for each other; leave it "
        "out, or give --distribution-strategy AllReduce");
  }
  MILLRACE_RETURN_IF_ERROR(CheckHowItLearns(config.training()));
  return CheckServers(config);
}

Status CheckAllReduceFeatures(const JobFeatures& features, const Training& training) {
  if (MakeModel(features, training)->row_width() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      std::string(kAllReduce) +
      "this model has embedding rows: of id columns (--ids), or of hashed features, since it has "
      "more parameters than --wide-above. Give a higher --wide-above; or start a new job (another "
      "--job) without the id columns, with fewer buckets (--categorical-buckets, --text-buckets), "
      "or with servers");
}

}  // namespace millrace
