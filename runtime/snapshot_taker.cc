#include "runtime/snapshot_taker.h"

#include <spdlog/spdlog.h>

#include <string_view>
#include <thread>

#include "base/big_endian.h"
#include "messages/snapshot.pb.h"
#include "runtime/patience.h"
#include "runtime/record_sender.h"
#include "runtime/server_metrics.h"
#include "runtime/snapshot_files.h"
#include "runtime/snapshot_writer.h"
#include "runtime/waits.h"
#include "topics/frame.h"

namespace millrace {
namespace {

// Workers held at a cut wait; so long, and no longer.
constexpr std::chrono::seconds kMostToTheCut(30);
constexpr std::chrono::seconds kMostForParts(120);
constexpr std::chrono::milliseconds kLook(200);

OutgoingRecord Request(const JobConfig& config, Gradient::Kind kind, ShardId shard, uint64_t id) {
  Gradient message;
  message.set_epoch(config.epoch());
  message.set_worker(kNoWorker);
  message.set_kind(kind);
  message.set_snapshot(id);
  return {Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(kNoWorker),
          std::move(MakeFrames(message.SerializeAsString(), 0).front())};
}

void Warn(const std::string& folder, const Status& status) {
  spdlog::warn("the snapshot {} is not made: {}", folder,
               std::string_view(status.message().data(), status.message().size()));
}

}  // namespace

OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t id) {
  return Request(config, Gradient::SNAPSHOT, 0, id);
}

std::string SnapshotFolder(const JobConfig& config, uint64_t id) {
  const Server& server = config.server();
  const std::string parent =
      server.has_snapshot_dir() ? server.snapshot_dir() : server.data_dir() + "/snapshots";
  return parent + "/" + config.name() + "-" + (id > 0 ? std::to_string(id) : "end");
}

Status AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop) {
  const Patience patience(stop, config.broker_timeout_s());
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<RecordSender> sender,
      RecordSender::Create(config, "snapshot-request", {Topic::kGradients}, patience, nullptr));
  const auto id = static_cast<uint64_t>(NowMs());
  std::vector<OutgoingRecord> records = {SnapshotRequest(config, id)};
  MILLRACE_RETURN_IF_ERROR(sender->Send(records));
  MILLRACE_RETURN_IF_ERROR(sender->Flush(kBrokerCall));
  const std::string folder = SnapshotFolder(config, id);
  if (!config.server().has_snapshot_dir()) {
    spdlog::info("asked for snapshot {}: the servers write it to their --snapshot-dir", id);
    return absl::OkStatus();
  }
  const auto begin = std::chrono::steady_clock::now();
  SnapshotManifest manifest;
  while (true) {
    Status read = ReadJson(folder + "/manifest.json", manifest);
    if (read.ok()) break;
    if (!absl::IsNotFound(read)) return read;
    if (stop) return absl::CancelledError("stopped");
    if (std::chrono::steady_clock::now() - begin > kMostForParts) {
      return absl::DeadlineExceededError(
          folder +
          " has not come: is it the servers' --snapshot-dir, and does the job get rows? "
          "The servers' logs say more");
    }
    std::this_thread::sleep_for(kLook);
  }
  spdlog::info("{}", folder);
  return absl::OkStatus();
}

void SnapshotTaker::WritePart(uint64_t id, const ServerOptions& options,
                              const ServerProcessor& processor, const OrderedByteMap& store,
                              Time now) {
  const std::string folder = SnapshotFolder(config_, id);
  const Time begin = std::chrono::steady_clock::now();
  SnapshotPart head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  const Status written = WriteSnapshotPart(folder, head, options, processor, store);
  if (!written.ok()) return Warn(folder, written);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  spdlog::info("shard {}: its part of the snapshot {} is written, in {:.2f} s", options.shard,
               folder, took.count());
  if (options.shard == 0) unfinished_ = {id, now};
}

bool SnapshotTaker::TryToEnd(uint64_t id) {
  const std::string folder = SnapshotFolder(config_, id);
  SnapshotManifest head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  head.set_created_ms(NowMs());
  *head.mutable_features() = features_;
  *head.mutable_training() = training_.training();
  const StatusOr<bool> ended = WriteManifest(folder, head);
  if (!ended.ok()) {
    Warn(folder, ended.status());
    return true;
  }
  if (*ended) spdlog::info("the snapshot {} is whole", folder);
  return *ended;
}

void SnapshotTaker::Tick(ShardId shard, const ServerProcessor& processor, Time now,
                         std::vector<OutgoingRecord>& out) {
  const std::optional<uint64_t> open = processor.open_snapshot();
  if (!open) {
    at_work_.erase(shard);
  } else if (!at_work_.contains(shard) || at_work_.at(shard).id != *open) {
    at_work_[shard] = {*open, now};
  } else if (now - at_work_.at(shard).since > kMostToTheCut) {
    spdlog::warn(
        "shard {}: the snapshot {} is given up: not every worker has sent the two updates "
        "that lead to its cut; make one while rows come",
        shard, *open);
    out.push_back(Request(config_, Gradient::CANCEL, shard, *open));
    at_work_.at(shard).since = now;
  }
  if (shard != 0 || !unfinished_) return;
  if (TryToEnd(unfinished_->id)) {
    unfinished_.reset();
  } else if (now - unfinished_->since > kMostForParts) {
    Warn(SnapshotFolder(config_, unfinished_->id),
         absl::DeadlineExceededError("parts of other shards are missing; give all servers of the "
                                     "job the same --snapshot-dir, on a disk that they share"));
    unfinished_.reset();
  }
}

void SnapshotTaker::Finish() {
  const Time begin = std::chrono::steady_clock::now();
  while (unfinished_ && !TryToEnd(unfinished_->id)) {
    if (std::chrono::steady_clock::now() - begin > kMostToTheCut) {
      return Warn(SnapshotFolder(config_, unfinished_->id),
                  absl::DeadlineExceededError("parts of other shards are missing"));
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace millrace
