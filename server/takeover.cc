#include "server/takeover.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error_marks.h"
#include "job/metric_points.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "messages/records.pb.h"
#include "server/server_metrics.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

// A dozen heartbeats.
constexpr std::chrono::seconds kSilence(3);
constexpr std::chrono::seconds kReportEvery(5);

std::string MarkOf(const JobConfig& config, ShardId shard) {
  return config.server().data_dir() + "/" + LayoutName(config) + "-shard-" + std::to_string(shard) +
         ".taken-over";
}

// The heartbeat of a server, if the record is one.
std::optional<MetricPoint::ServerProgress> Heartbeat(const ConsumedRecord& record) {
  if (!record.key.starts_with("server/")) return std::nullopt;
  const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
  if (!point.ok() || !point->has_server()) return std::nullopt;
  return point->server();
}

// Reads the last points of `metrics` up to the end as it is now.
Status ReadLastPoints(const JobConfig& config, const std::atomic<bool>& stop,
                      const MetricPoints::Take& take) {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      MetricPoints metrics,
      MetricPoints::Open(config, "takeover", MetricPoints::kFewMinutes, stop, &wakeup));
  while (!metrics.is_read()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, metrics.Poll(take));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<std::string>> SuccessorOf(const JobConfig& config, ShardId shard,
                                                 const std::string& process,
                                                 const std::atomic<bool>& stop) {
  bool has_hosted = false;
  std::optional<std::string> successor;
  const auto take = [&](const ConsumedRecord& record) {
    const std::optional<MetricPoint::ServerProgress> holder = Heartbeat(record);
    if (!holder || holder->shard() != shard) return absl::OkStatus();
    if (holder->process() == process) {
      has_hosted = true;
    } else if (has_hosted) {  // others may have had it before
      successor = holder->process();
    }
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(ReadLastPoints(config, stop, take));
  return successor;
}

std::string TakenOverText(const MetricPoint::ServerProgress& holder) {
  const std::string process = holder.process().empty() ? "another server" : holder.process();
  return "shard " + std::to_string(holder.shard()) + ": " + process +
         " took it over from this server and is running; this server waits until that one has "
         "stopped. Stop one of the two: give each shard to one process (--server-ids)";
}

void RememberTakeover(const JobConfig& config, const std::vector<ShardId>& shards) {
  for (const ShardId shard : shards) {
    const Status written = WriteAtomicFile(
        MarkOf(config, shard), "another server has taken this shard over; the next start waits\n");
    if (!written.ok()) spdlog::warn("{}", std::string(written.message()));
  }
}

Status WaitWhileTakenOver(const JobConfig& config, const std::vector<ShardId>& shards,
                          const std::atomic<bool>& stop) {
  std::set<ShardId> taken;
  std::error_code ignored;
  for (const ShardId shard : shards) {
    if (std::filesystem::exists(MarkOf(config, shard), ignored)) taken.insert(shard);
  }
  if (taken.empty()) return absl::OkStatus();
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(MetricPoints metrics,
                            MetricPoints::Open(config, "takeover", 0, stop, &wakeup));
  auto last_heartbeat = steady_clock::now();
  auto next_report = last_heartbeat;
  const auto take = [&](const ConsumedRecord& record) {
    const std::optional<MetricPoint::ServerProgress> holder = Heartbeat(record);
    if (!holder || !taken.contains(ShardId(holder->shard()))) return absl::OkStatus();
    last_heartbeat = steady_clock::now();
    if (last_heartbeat < next_report) return absl::OkStatus();
    next_report = last_heartbeat + kReportEvery;
    spdlog::warn("{}", TakenOverText(*holder));
    return absl::OkStatus();
  };
  // Silence counts once the topic is being read.
  while (!metrics.is_read() || steady_clock::now() - last_heartbeat < kSilence) {
    if (stop) return absl::CancelledError("stopped");
    const bool was_read = metrics.is_read();
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, metrics.Poll(take));
    if (metrics.is_read() && !was_read) last_heartbeat = steady_clock::now();
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  for (const ShardId shard : taken) std::filesystem::remove(MarkOf(config, shard), ignored);
  return absl::OkStatus();
}

// Whoever has taken the shard over deletes what its checkpoints have. A server that hung may meet
// that before a checkpoint of its own is refused.
Status WhyRecordsAreGone(const JobConfig& config, ShardId shard, const std::atomic<bool>& stop) {
  const std::string gone = TopicName(config, Topic::kGradients) + ", partition " +
                           std::to_string(shard) +
                           ": records were deleted before this server read them";
  const StatusOr<std::optional<std::string>> successor =
      SuccessorOf(config, shard, ThisProcess(), stop);
  if (successor.ok() && *successor) {
    return MarkFenced(absl::FailedPreconditionError(
        "shard " + std::to_string(shard) + " was taken over by another process (" + **successor +
        "); this process stops. Give each shard to one process (--server-ids). "
        "Noticed by this: " +
        gone));
  }
  return absl::DataLossError(
      gone +
      ", or the topic lost its end. Another instance of this shard may have checkpointed "
      "further: start this server again" +
      (successor.ok() ? ""
                      : ". (Who hosts the shard now cannot be read from metrics: " +
                            std::string(successor.status().message()) + ")"));
}

}  // namespace millrace
