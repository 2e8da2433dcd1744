// Prints how a job gets on, as shard 0 says four times a second: a line for each point with the
// server's clock in milliseconds, training rounds, rows trained on, and updates that a shard has
// not saved (the most of all shards). Ends when it is killed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <ranges>
#include <string>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "messages/records.pb.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status Run(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  Wakeup wakeup;
  ConsumerOptions options;
  options.client_id = "job-rounds";
  options.fetch_wait = kFetchWait;  // its processor time counts as the job's
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> metrics,
      PartitionConsumer::Create(ToKafkaOptions(config), options,
                                TopicName(config.name(), Topic::kMetrics), &wakeup));
  MILLRACE_RETURN_IF_ERROR(metrics->Assign(0, 0));
  std::map<uint32_t, uint64_t> unsaved;  // by shard
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    const StatusOr<MetricPoint> decoded = DecodeMetricPoint(record.value);
    if (!decoded.ok() || !decoded->has_server()) return absl::OkStatus();
    const MetricPoint& point = *decoded;
    unsaved[point.server().shard()] = point.server().unsaved_updates();
    if (point.server().shard() != 0) return absl::OkStatus();
    const uint64_t most = std::ranges::max(std::views::values(unsaved));
    std::printf("%lld %llu %llu %llu\n", static_cast<long long>(point.timestamp_ms()),
                static_cast<unsigned long long>(point.server().rounds()),
                static_cast<unsigned long long>(point.server().rows_trained()),
                static_cast<unsigned long long>(most));
    std::fflush(stdout);
    return absl::OkStatus();
  };
  while (true) {
    MILLRACE_RETURN_IF_ERROR(metrics->Poll(1000, handler).status());
    wakeup.WaitFor(std::chrono::milliseconds(200));
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Prints the time, rounds and rows of a job's metrics", "job_rounds");
  millrace::JobFlags flags(app);
  return millrace::RunProgram(app, "job_rounds", argc, argv, [&] { return millrace::Run(flags); });
}
