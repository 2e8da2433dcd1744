#include "runtime/snapshot_request.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "messages/records.pb.h"
#include "messages/snapshot.pb.h"
#include "runtime/job_board.h"
#include "runtime/job_options.h"
#include "runtime/kafka/admin.h"
#include "runtime/patience.h"
#include "runtime/record_sender.h"
#include "runtime/server_metrics.h"
#include "runtime/snapshot_files.h"
#include "runtime/waits.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kMostToWait(120);
constexpr std::chrono::milliseconds kLookAgain(200);
constexpr std::chrono::seconds kAskTheBoard(1);

OutgoingRecord Request(const JobConfig& config, Gradient::Kind kind, ShardId shard, uint64_t id) {
  Gradient message;
  message.set_epoch(config.epoch());
  message.set_worker(kNoWorker);
  message.set_kind(kind);
  message.set_snapshot(id);
  return {Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(kNoWorker),
          std::move(MakeFrames(message.SerializeAsString(), 0).front())};
}

// The board of a job that has begun; NotFound when there is none. Nobody waits for one here: a name
// that is written wrong would wait for ever.
StatusOr<std::unique_ptr<JobBoard>> BoardOf(const JobConfig& config,
                                            const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(KafkaOptionsOf(config), "snapshot-request"));
  MILLRACE_RETURN_IF_ERROR(admin->WaitForBroker([&stop] { return stop.load(); }));
  const std::string topic = TopicName(config.name(), Topic::kJob);
  const StatusOr<int32_t> partitions = admin->PartitionCount(topic);
  if (absl::IsNotFound(partitions.status())) {
    return absl::NotFoundError("there is no job " + config.name() + " at " + config.brokers() +
                               " (it would have a topic " + topic + "): is --job right?");
  }
  MILLRACE_RETURN_IF_ERROR(partitions.status());
  return JobBoard::Create(config, stop);
}

// FailedPrecondition when nobody is there any more who could write a snapshot.
Status CheckThatItRuns(const JobConfig& config, JobBoard& board) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> training, board.ReadTraining());
  if (!training) {
    return absl::FailedPreconditionError("job " + config.name() +
                                         " has not begun: no ServerApp has started yet");
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool ended, board.ReadEnded(training->shards()));
  if (!ended) return absl::OkStatus();
  return absl::FailedPreconditionError("job " + config.name() +
                                       " has ended; what it ended with is in the servers' "
                                       "--snapshot-dir, if they were given one");
}

}  // namespace

OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t id) {
  return Request(config, Gradient::SNAPSHOT, 0, id);
}

OutgoingRecord SnapshotCancel(const JobConfig& config, ShardId shard, uint64_t id) {
  return Request(config, Gradient::CANCEL, shard, id);
}

std::string SnapshotFolder(const JobConfig& config, uint64_t id) {
  const Server& server = config.server();
  const std::string parent =
      server.has_snapshot_dir() ? server.snapshot_dir() : server.data_dir() + "/snapshots";
  return parent + "/" + config.name() + "-" + (id > 0 ? std::to_string(id) : "end");
}

Status AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobBoard> board, BoardOf(config, stop));
  MILLRACE_RETURN_IF_ERROR(CheckThatItRuns(config, *board));
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
  spdlog::info("asked for snapshot {}: it comes to {}, if that is in the servers' --snapshot-dir",
               id, folder);
  const auto begin = std::chrono::steady_clock::now();
  auto next_question = begin + kAskTheBoard;
  Status runs = absl::OkStatus();
  SnapshotManifest manifest;
  while (true) {
    Status read = ReadJson(ManifestPath(folder), manifest);
    if (read.ok()) break;
    if (!absl::IsNotFound(read)) return read;
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_RETURN_IF_ERROR(runs);  // it had not come although the job had ended before
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_question) {
      next_question = now + kAskTheBoard;
      runs = CheckThatItRuns(config, *board);
      continue;
    }
    if (now - begin > kMostToWait) {
      return absl::DeadlineExceededError(
          folder +
          " has not come: is it the servers' --snapshot-dir, and does the job get rows? "
          "The servers' logs say more");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  spdlog::info("{}", folder);
  return absl::OkStatus();
}

}  // namespace millrace
