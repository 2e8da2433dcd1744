// Prints how long rounds or rows of a running job take, as a reader of its topics sees them: count,
// median, 99th and 99.9th percentile in milliseconds.
//
//   rounds     from one record of the shared partition of `weights` to the next: a round trip of
//              sequential training. Nothing is decoded, so it can watch a floor (bare_loop --once)
//   freshness  from a row in `input-data` until shard 0 answers its worker with weights that the
//   row
//              is in
#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "base/big_endian.h"
#include "benchmarks/kafka/percentiles.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using Time = std::chrono::steady_clock::time_point;

struct Options {
  bool freshness = false;
  double warm_up = 3;
  double seconds = 8;
};

class Watcher {
 public:
  Watcher(const Options& options, uint32_t workers)
      : options_(options),
        workers_(static_cast<int32_t>(workers)),
        rows_end_(workers),
        begin_(std::chrono::steady_clock::now() + Seconds(options.warm_up)),
        end_(begin_ + Seconds(options.seconds)) {}

  bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

  void OnRow(const ConsumedRecord& record) {
    const auto number = DecodeBigEndian64(record.key);
    if (number) came_[{record.partition, *number}] = std::chrono::steady_clock::now();
  }

  Status OnWeights(const ConsumedRecord& record) {
    const Time now = std::chrono::steady_clock::now();
    if (options_.freshness) return CountRows(record, now);
    if (record.partition != workers_) return absl::OkStatus();
    if (last_ != Time()) Add(last_, now);
    last_ = now;
    return absl::OkStatus();
  }

  void Print() const { PrintPercentiles(ms_); }

 private:
  static std::chrono::steady_clock::duration Seconds(double seconds) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
  }

  void Add(Time from, Time to) {
    if (from < begin_) return;
    ms_.push_back(std::chrono::duration<double, std::milli>(to - from).count());
  }

  Status CountRows(const ConsumedRecord& record, Time now) {
    MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(record.value));
    if (frame.is_chunk)
      return absl::InvalidArgumentError("the weights are split: too large a model");
    if (record.partition != workers_) {
      Weights message;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, message));
      if (message.shard() == 0) CountUpTo(record.partition, message.rows().end(), now);
      return absl::OkStatus();
    }
    SharedWeights message;
    MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, message));
    for (const SharedWeights::Answer& answer : message.answers()) {
      if (message.shard() == 0 && answer.worker() < rows_end_.size()) {
        CountUpTo(static_cast<int32_t>(answer.worker()), answer.rows().end(), now);
      }
    }
    return absl::OkStatus();
  }

  void CountUpTo(int32_t worker, uint64_t end, Time now) {
    for (uint64_t& row = rows_end_[static_cast<size_t>(worker)]; row < end; ++row) {
      const auto came = came_.find({worker, row});
      if (came == came_.end()) continue;
      Add(came->second, now);
      came_.erase(came);
    }
  }

  const Options options_;
  const int32_t workers_;
  std::map<std::pair<int32_t, uint64_t>, Time> came_;  // by partition and row number
  std::vector<uint64_t> rows_end_;                     // by worker: rows that have been counted
  Time last_;
  const Time begin_;
  const Time end_;
  std::vector<double> ms_;
};

StatusOr<std::unique_ptr<PartitionConsumer>> Follow(const JobConfig& config, Topic topic,
                                                    int32_t partitions, Wakeup& wakeup) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<PartitionConsumer> consumer,
      PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "job-latency"},
                                TopicName(config, topic), &wakeup));
  for (int32_t partition = 0; partition < partitions; ++partition) {
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                              consumer->QueryRange(partition, kBrokerCall));
    MILLRACE_RETURN_IF_ERROR(consumer->Assign(partition, range.end));
  }
  return consumer;
}

Status Run(const JobFlags& flags, const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  const auto workers = static_cast<int32_t>(config.workers());
  Wakeup wakeup;
  std::unique_ptr<PartitionConsumer> rows;
  if (options.freshness) {
    MILLRACE_ASSIGN_OR_RETURN(rows, Follow(config, Topic::kInputData, workers, wakeup));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto weights,
                            Follow(config, Topic::kWeights, workers + 1, wakeup));
  Watcher watcher(options, config.workers());
  ConsumerHandler row_handler;
  row_handler.on_record = [&](const ConsumedRecord& record) {
    watcher.OnRow(record);
    return absl::OkStatus();
  };
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) { return watcher.OnWeights(record); };
  while (!watcher.is_over()) {
    size_t events = 0;
    if (rows != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(events, rows->Poll(1000, row_handler));
    }
    MILLRACE_ASSIGN_OR_RETURN(const size_t more, weights->Poll(1000, handler));
    if (events + more == 0) wakeup.WaitFor(std::chrono::milliseconds(50));
  }
  watcher.Print();
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Prints percentiles of how long rounds, or rows, of a job take", "job_latency");
  millrace::Options options;
  app.add_flag("--freshness", options.freshness, "Of rows");
  app.add_option("--warm-up", options.warm_up, "Seconds")->capture_default_str();
  app.add_option("--seconds", options.seconds, "To be measured")->capture_default_str();
  millrace::JobFlags flags(app);
  return millrace::RunProgram(app, "job_latency", argc, argv,
                              [&] { return millrace::Run(flags, options); });
}
