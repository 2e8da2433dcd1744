#include "topics/metric_point_codec.h"

#include <algorithm>
#include <string>

#include "topics/frame.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr int64_t kMostTimestampMs = 253'402'300'799'999;  // the end of the year 9999
constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr uint32_t kMostEpochs = 1'000'000'000;
constexpr size_t kMostSourceBytes = 1000;

Status BadPoint(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckCount(std::string_view what, uint64_t value, uint64_t most) {
  if (value <= most) return absl::OkStatus();
  return BadPoint(std::string(what) + " " + std::to_string(value) + ", where " +
                  std::to_string(most) + " is the most");
}

Status CheckProducer(const MetricPoint::ProducerProgress& point) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("bytes read", point.bytes_read(), kMostBytes));
  MILLRACE_RETURN_IF_ERROR(CheckCount("bytes of the input", point.bytes_total(), kMostBytes));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows read", point.rows_read(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows rejected", point.rows_rejected(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows sent", point.rows_sent(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("epoch", point.epoch_of_stream(), kMostEpochs));
  return CheckCount("epochs", point.epochs_of_stream(), kMostEpochs);
}

Status CheckWorkers(const google::protobuf::RepeatedPtrField<WorkerProgress>& workers) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("workers:", workers.size(), kMostWorkers));
  for (const WorkerProgress& worker : workers) {
    MILLRACE_RETURN_IF_ERROR(CheckCount("worker", worker.worker(), kMostWorkers - 1));
    MILLRACE_RETURN_IF_ERROR(CheckCount("clock", worker.clock(), kMostClock));
  }
  return absl::OkStatus();
}

Status CheckRecovery(const MetricPoint::ServerProgress::Recovery& recovery) {
  const std::string& source = recovery.source();
  MILLRACE_RETURN_IF_ERROR(CheckCount("bytes of a name:", source.size(), kMostSourceBytes));
  // It is shown on a terminal.
  const bool is_plain =
      std::ranges::none_of(source, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  return is_plain ? absl::OkStatus() : BadPoint("a source with control characters");
}

Status CheckServer(const MetricPoint::ServerProgress& point) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("shards:", point.shards(), kMostShards));
  MILLRACE_RETURN_IF_ERROR(CheckCount("shard", point.shard(), std::max(point.shards(), 1U) - 1));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rounds:", point.rounds(), kMostClock));
  MILLRACE_RETURN_IF_ERROR(CheckCount("updates:", point.updates(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows trained on:", point.rows_trained(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows counted:", point.rows_counted(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckCount("rows tested:", point.progressive().rows(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckWorkers(point.workers()));
  return CheckRecovery(point.recovery());
}

}  // namespace

Status CheckMetricPoint(const MetricPoint& point) {
  if (point.timestamp_ms() < 0 || point.timestamp_ms() > kMostTimestampMs) {
    return BadPoint("a time of " + std::to_string(point.timestamp_ms()) + " ms");
  }
  switch (point.kind_case()) {
    case MetricPoint::kProducer:
      return CheckProducer(point.producer());
    case MetricPoint::kServer:
      return CheckServer(point.server());
    case MetricPoint::kEvaluation:
      MILLRACE_RETURN_IF_ERROR(CheckCount("shard", point.evaluation().shard(), kMostShards - 1));
      return CheckCount("clock", point.evaluation().clock(), kMostClock);
    case MetricPoint::KIND_NOT_SET:
      break;
  }
  return BadPoint("a point of an unknown kind");
}

StatusOr<MetricPoint> DecodeMetricPoint(std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return BadPoint("a part of a message, where a point is never split");
  MetricPoint point;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, point));
  MILLRACE_RETURN_IF_ERROR(CheckMetricPoint(point));
  return point;
}

}  // namespace millrace
