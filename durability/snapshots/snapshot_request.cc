#include "durability/snapshots/snapshot_request.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/big_endian.h"
#include "base/clock.h"
#include "durability/snapshots/snapshot_files.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/record_sender.h"
#include "job/topic_exists.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "messages/records.pb.h"
#include "messages/snapshot.pb.h"
#include "topics/frame.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kMostToWait(120);
// A snapshot that was cut before the job ended is complete by then.
constexpr std::chrono::seconds kMostAfterTheEnd(5);
constexpr std::chrono::milliseconds kLookAgain(200);

constexpr char kEndName[] = "end";

Gradient NewRequest(const JobConfig& config) {
  Gradient message;
  message.set_epoch(config.epoch());
  message.set_worker(kNoWorker);
  return message;
}

OutgoingRecord ToRecord(const Gradient& message, ShardId shard) {
  return {Topic::kGradients, static_cast<int32_t>(shard), EncodeBigEndian32(kNoWorker),
          std::move(MakeFrames(message.SerializeAsString(), 0).front())};
}

// NotFound when there is no such job: who waits for a name that is written wrong waits for ever.
Status CheckThatItIsThere(const JobConfig& config, const std::atomic<bool>& stop) {
  const std::string topic = TopicName(config.name(), Topic::kJob);
  MILLRACE_ASSIGN_OR_RETURN(const bool is_there, TopicExists(config, topic, stop));
  if (is_there) return absl::OkStatus();
  return absl::NotFoundError("no job " + config.name() + " at " + config.brokers() + " (topic " +
                             topic + " does not exist); check --job and --brokers");
}

// FailedPrecondition when it has not started.
StatusOr<bool> HasEnded(const JobConfig& config, JobRegistry& registry) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> training, registry.ReadTraining());
  if (!training) {
    return absl::FailedPreconditionError(
        "job " + config.name() +
        " has not started: no ServerApp has published training settings yet, since ServerApp waits "
        "for CsvProducer; start both, then repeat this command");
  }
  JobConfig of_layout = config;
  JobTraining in_force = *training;
  MILLRACE_RETURN_IF_ERROR(FollowLayout(registry, of_layout, in_force).status());
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry.ReadEnded());
  return EveryShardEnded(ended, in_force.shards());
}

// FailedPrecondition when nobody is there who could write a snapshot.
Status CheckThatItRuns(const JobConfig& config, JobRegistry& registry) {
  MILLRACE_ASSIGN_OR_RETURN(const bool has_ended, HasEnded(config, registry));
  if (!has_ended) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "job " + config.name() +
      " has ended; its last snapshot is in the servers' --snapshot-dir, if they were given one");
}

// What the process of shard 0 says of a snapshot meanwhile.
class SnapshotProgress {
 public:
  static StatusOr<std::unique_ptr<SnapshotProgress>> Create(const JobConfig& config,
                                                            uint64_t number,
                                                            const BrokerRetry& broker_retry) {
    auto progress = std::make_unique<SnapshotProgress>();
    progress->number_ = number;
    MILLRACE_ASSIGN_OR_RETURN(
        progress->metrics_,
        PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "snapshot-request"},
                                  TopicName(config.name(), Topic::kMetrics), nullptr));
    MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry.Run([&progress] {
      return progress->metrics_->QueryRange(0, kBrokerCall);
    }));
    MILLRACE_RETURN_IF_ERROR(progress->metrics_->Assign(0, range.end));
    return progress;
  }

  // The snapshot's id: as a rule the request's number, or a larger one that shard 0 has chosen.
  uint64_t id() const { return id_.value_or(number_); }

  // True when it has just been said to be on its way. Unavailable when it was given up.
  StatusOr<bool> Look() {
    bool is_under_way = false;
    bool is_given_up = false;
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
      if (!point.ok() || !point->has_server() || point->server().shard() != 0) {
        return absl::OkStatus();
      }
      const MetricPoint::ServerProgress& server = point->server();
      if (server.snapshot_request() == number_) id_ = server.snapshot_newest();
      is_under_way |= id_ && server.snapshot_under_way() == *id_;
      is_given_up |= server.snapshot_given_up() == id_.value_or(number_);
      return absl::OkStatus();
    };
    MILLRACE_RETURN_IF_ERROR(metrics_->Poll(kPointsAtOnce, handler).status());
    if (!is_given_up) return is_under_way;
    return absl::UnavailableError(
        "the servers cancelled the snapshot. The log of the ServerApp of shard 0 says why: another "
        "snapshot was in progress; or the shards were at different clocks; or a part is missing or "
        "could not be written (check --snapshot-dir and its free space). Then request it again");
  }

 private:
  static constexpr size_t kPointsAtOnce = 1000;

  uint64_t number_ = 0;
  std::optional<uint64_t> id_;
  std::unique_ptr<PartitionConsumer> metrics_;
};

// The job's folders whose names end with `ending`, by id (0: the one of the job's end).
std::map<uint64_t, std::string> SnapshotsOf(const JobConfig& config, std::string_view ending) {
  namespace fs = std::filesystem;
  const std::string prefix = config.name() + "-";
  std::map<uint64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(SnapshotParent(config), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(ending)) continue;
    const std::string suffix =
        name.substr(prefix.size(), name.size() - prefix.size() - ending.size());
    uint64_t id = 0;
    // (Another job's name may begin with this one's.)
    if (suffix == kEndName || (absl::SimpleAtoi(suffix, &id) && id > 0)) {
      found[id] = entry->path().string();
    }
  }
  return found;
}

// Those that are not whole or have no name yet.
std::map<uint64_t, std::string> PartialSnapshots(const JobConfig& config) {
  return SnapshotsOf(config, kPartialSnapshot);
}

}  // namespace

std::string SnapshotParent(const JobConfig& config) {
  const Server& server = config.server();
  return server.has_snapshot_dir() ? server.snapshot_dir() : server.data_dir() + "/snapshots";
}

OutgoingRecord SnapshotRequest(const JobConfig& config, uint64_t number) {
  Gradient message = NewRequest(config);
  message.mutable_request_snapshot()->set_number(number);
  return ToRecord(message, 0);
}

OutgoingRecord SnapshotCancel(const JobConfig& config, ShardId shard, uint64_t id,
                              bool is_incomplete) {
  Gradient message = NewRequest(config);
  message.mutable_cancel_snapshot()->set_snapshot(id);
  message.mutable_cancel_snapshot()->set_incomplete(is_incomplete);
  return ToRecord(message, shard);
}

OutgoingRecord SnapshotCutHere(const JobConfig& config, ShardId shard, uint64_t id) {
  Gradient message = NewRequest(config);
  message.mutable_cut_here()->set_snapshot(id);
  return ToRecord(message, shard);
}

std::string SnapshotFolder(const JobConfig& config, uint64_t id) {
  return SnapshotParent(config) + "/" + config.name() + "-" +
         (id > 0 ? std::to_string(id) : std::string(kEndName));
}

std::string PartialSnapshotFolder(const JobConfig& config, uint64_t id) {
  return SnapshotFolder(config, id) + kPartialSnapshot;
}

void NameWholeSnapshots(const JobConfig& config) {
  for (const auto& [id, folder] : PartialSnapshots(config)) {
    if (!ReadManifest(folder).ok()) continue;
    const std::string whole = SnapshotFolder(config, id);
    const Status named = NameSnapshot(folder, whole);
    if (named.ok()) {
      spdlog::info("snapshot {}: complete", whole);
    } else {
      spdlog::warn("{}", std::string(named.message()));
    }
  }
}

std::optional<std::string> NewestSnapshot(const JobConfig& config) {
  const std::map<uint64_t, std::string> all = SnapshotsOf(config, "");
  if (all.empty() || all.rbegin()->first == 0) return std::nullopt;
  return all.rbegin()->second;
}

void RemovePartialSnapshots(const JobConfig& config, uint64_t newest) {
  for (const auto& [id, folder] : PartialSnapshots(config)) {
    if (id == 0 || (newest > 0 && id >= newest)) continue;
    spdlog::info(
        "{}: incomplete snapshot removed: a process that wrote it was killed, and a later snapshot "
        "is complete",
        folder);
    std::error_code ignored;  // the next whole snapshot tries again
    std::filesystem::remove_all(folder, ignored);
  }
}

void RemoveOldSnapshots(const JobConfig& config, size_t kept) {
  namespace fs = std::filesystem;
  const std::map<uint64_t, std::string> all = SnapshotsOf(config, "");
  size_t newer = 0;
  for (auto snapshot = all.rbegin(); snapshot != all.rend(); ++snapshot) {
    const auto& [id, folder] = *snapshot;
    if (id == 0) continue;
    const StatusOr<SnapshotManifest> manifest = ReadManifest(folder);
    if (!manifest.ok() || manifest->epoch() != config.epoch()) continue;
    if (++newer <= kept) continue;
    // Without its manifest it is none any more; by the name it is found, should this be killed.
    const std::string partial = PartialSnapshotFolder(config, id);
    std::error_code error;
    fs::remove_all(partial, error);
    fs::rename(folder, partial, error);
    if (!error) fs::remove(ManifestPath(partial), error);
    if (!error) fs::remove_all(partial, error);
    if (error) {
      spdlog::warn("{}: this old snapshot cannot be removed: {} (--snapshots-kept)", folder,
                   error.message());
    } else {
      spdlog::info("{}: removed: {} newer snapshots are complete (--snapshots-kept)", folder, kept);
    }
  }
}

StatusOr<std::string> AskForSnapshot(const JobConfig& config, const std::atomic<bool>& stop) {
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  MILLRACE_RETURN_IF_ERROR(CheckThatItIsThere(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_RETURN_IF_ERROR(CheckThatItRuns(config, *registry));
  MILLRACE_ASSIGN_OR_RETURN(std::optional<JobTraining> training, registry->ReadTraining());
  JobConfig of_layout = config;
  if (training) MILLRACE_RETURN_IF_ERROR(FollowLayout(*registry, of_layout, *training).status());
  if (training && training->training().distribution_strategy() == Training::ALL_REDUCE) {
    return absl::FailedPreconditionError(
        "job " + config.name() +
        " trains by all-reduce: it takes no snapshot but that of its end (docs/all-reduce.md)");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSender> sender,
                            RecordSender::Create(of_layout, "snapshot-request", {Topic::kGradients},
                                                 broker_retry, nullptr));
  const auto id = static_cast<uint64_t>(NowMs());
  std::unique_ptr<SnapshotProgress> progress;  // of one that is waited for
  if (config.server().has_snapshot_dir()) {
    MILLRACE_ASSIGN_OR_RETURN(progress, SnapshotProgress::Create(config, id, broker_retry));
  }
  std::vector<OutgoingRecord> records = {SnapshotRequest(config, id)};
  MILLRACE_RETURN_IF_ERROR(sender->Send(records));
  MILLRACE_RETURN_IF_ERROR(sender->Flush(kBrokerCall));
  if (sender->DeliveryFailed()) {
    return absl::UnavailableError("the request for a snapshot was not delivered to " +
                                  TopicName(of_layout, Topic::kGradients) +
                                  ": the line before this says why");
  }
  std::string folder = SnapshotFolder(config, id);
  if (!config.server().has_snapshot_dir()) {
    spdlog::info(
        "requested snapshot {}; the servers write it to their --snapshot-dir; a single server "
        "without one writes it to snapshots in its --data-dir",
        id);
    return std::string();
  }
  spdlog::info("requested snapshot {}; it will be in {} if that is in the servers' --snapshot-dir",
               id, folder);
  auto begin = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> ended;  // the job, seen at
  SnapshotManifest manifest;
  while (true) {
    Status read = ReadJson(ManifestPath(folder), manifest);
    if (read.ok()) break;
    if (!absl::IsNotFound(read)) return read;
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const bool is_under_way, progress->Look());
    if (is_under_way) begin = std::chrono::steady_clock::now();
    folder = SnapshotFolder(config, progress->id());
    if (std::chrono::steady_clock::now() - begin > kMostToWait) {
      return absl::DeadlineExceededError(
          folder +
          " did not appear: check that the servers use this --snapshot-dir and that the job "
          "receives rows; see the servers' logs");
    }
    if (!ended && absl::IsFailedPrecondition(CheckThatItRuns(config, *registry))) {
      ended = std::chrono::steady_clock::now();
    }
    if (ended && std::chrono::steady_clock::now() - *ended > kMostAfterTheEnd) {
      return absl::FailedPreconditionError(
          "job " + config.name() + " has ended, and " + folder +
          " was not written: the job ended before the snapshot's cut. The servers write a snapshot "
          "at the end of the job, if they have --snapshot-dir");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  spdlog::info("snapshot {}: complete", folder);
  return folder;
}

StatusOr<std::string> NewestStateAsSnapshot(const JobConfig& config,
                                            const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckThatItIsThere(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const bool has_ended, HasEnded(config, *registry));
  if (!has_ended) return AskForSnapshot(config, stop);
  std::string last = SnapshotFolder(config, 0);
  std::error_code ignored;
  if (std::filesystem::exists(ManifestPath(last), ignored)) return last;
  return absl::FailedPreconditionError(
      "job " + config.name() + " has ended, and its last snapshot, " + last +
      ", is not there: start each of its servers again, with this --snapshot-dir, which writes it; "
      "then repeat this command");
}

}  // namespace millrace
