// How long it takes from a row's arrival (the time of its record in `input-data`) until a Predictor
// that follows the job answers by weights that contain it: it is asked again and again how many
// rows its weights were trained on (GET /model). Of a job of one worker, whose rows are learnt in
// their order. Prints `begin` and `end` of the rows that are measured, then the count, and median,
// 99th and 99.9th percentile in milliseconds.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "base/clock.h"
#include "benchmarks/kafka/percentiles.h"
#include "http/http_client.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// The resolution of what is measured.
constexpr std::chrono::milliseconds kAskEvery(1);
// After the last row that is measured: longer than any checkpoint takes.
constexpr int64_t kPatienceMs = 30'000;

struct Options {
  uint32_t port = 0;
  double warm_up = 3;
  double seconds = 8;
};

class Watcher {
 public:
  explicit Watcher(const Options& options)
      : begin_ms_(NowMs() + static_cast<int64_t>(options.warm_up * 1000)),
        end_ms_(begin_ms_ + static_cast<int64_t>(options.seconds * 1000)) {}

  void AddRows(const ConsumedRecord& record) {
    const std::optional<InputKey> key = DecodeInputKey(record.key);
    if (!key || !key->has_rows()) return;
    if (record.timestamp_ms < begin_ms_ || record.timestamp_ms >= end_ms_) return;
    for (uint64_t i = 0; i < key->count; ++i) {
      waiting_.push_back({uint64_t{key->first} + i, record.timestamp_ms});
    }
  }

  // The Predictor answers by weights that were trained on so many rows.
  void NoteRows(uint64_t rows) {
    const int64_t now_ms = NowMs();
    for (; !waiting_.empty() && waiting_.front().number < rows; waiting_.pop_front()) {
      ms_.push_back(static_cast<double>(now_ms - waiting_.front().came_ms));
    }
  }

  // OK: there is more to be measured.
  StatusOr<bool> IsOver() {
    const int64_t now_ms = NowMs();
    if (!has_begun_ && now_ms >= begin_ms_) {
      has_begun_ = true;
      SayNow("begin");
    }
    if (!has_ended_ && now_ms >= end_ms_) {
      has_ended_ = true;
      SayNow("end");
    }
    constexpr int64_t kLastRowsMs = 1000;  // until those that came at the end have been read
    if (now_ms < end_ms_ + kLastRowsMs) return false;
    if (waiting_.empty()) return true;
    if (now_ms < end_ms_ + kPatienceMs) return false;
    return absl::DeadlineExceededError(std::to_string(waiting_.size()) +
                                       " rows are in no weights of the Predictor");
  }

  void Print() const { PrintPercentiles(ms_); }

 private:
  struct Row {
    uint64_t number;
    int64_t came_ms;
  };

  const int64_t begin_ms_;
  const int64_t end_ms_;
  bool has_begun_ = false;
  bool has_ended_ = false;
  std::deque<Row> waiting_;  // by number
  std::vector<double> ms_;
};

// 0: it has no model yet.
StatusOr<uint64_t> RowsOfModel(HttpClient& client, uint32_t port) {
  HttpClientRequest request;
  request.url = "http://127.0.0.1:" + std::to_string(port) + "/model";
  MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer, client.Do(request));
  if (answer.status != 200) return 0;
  const nlohmann::json json = nlohmann::json::parse(answer.body);
  // (Whole numbers of 64 bits are strings in JSON.)
  return std::strtoull(json["model"]["rows"].get<std::string>().c_str(), nullptr, 10);
}

Status Run(const JobFlags& flags, const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  if (config.workers() != 1) return absl::InvalidArgumentError("rows of one worker only");
  MILLRACE_ASSIGN_OR_RETURN(const auto client, HttpClient::Create({}));
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      const auto rows,
      PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "model-freshness"},
                                TopicName(config.name(), Topic::kInputData), &wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, rows->QueryRange(0, kBrokerCall));
  MILLRACE_RETURN_IF_ERROR(rows->Assign(0, range.end));
  Watcher watcher(options);
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    watcher.AddRows(record);
    return absl::OkStatus();
  };
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool is_over, watcher.IsOver());
    if (is_over) break;
    MILLRACE_RETURN_IF_ERROR(rows->Poll(1000, handler).status());
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t learnt, RowsOfModel(*client, options.port));
    watcher.NoteRows(learnt);
    wakeup.WaitFor(kAskEvery);
  }
  watcher.Print();
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Prints percentiles of how long rows take until they are predicted by",
               "model_freshness");
  millrace::Options options;
  app.add_option("--port", options.port, "Of the Predictor, on this machine")->required();
  app.add_option("--warm-up", options.warm_up, "Seconds")->capture_default_str();
  app.add_option("--seconds", options.seconds, "To be measured")->capture_default_str();
  millrace::JobFlags flags(app);
  return millrace::RunProgram(app, "model_freshness", argc, argv,
                              [&] { return millrace::Run(flags, options); });
}
