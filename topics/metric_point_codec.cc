#include "topics/metric_point_codec.h"

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "messages/source.pb.h"
#include "topics/figures_codec.h"
#include "topics/frame.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr uint32_t kMostEpochs = 1'000'000'000;
constexpr uint64_t kMostSettings = 500;
constexpr uint64_t kMostFeatures = uint64_t{1} << 40;

Status BadPoint(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckTime(int64_t timestamp_ms) {
  if (timestamp_ms >= 0 && timestamp_ms <= kMostTimestampMs) return absl::OkStatus();
  return BadPoint("a time of " + std::to_string(timestamp_ms) + " ms: it is between 0 and " +
                  std::to_string(kMostTimestampMs));
}

// It is shown on a terminal.
Status CheckText(const std::string& name, const std::string& text) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of the " + name + ":", text.size(), kMostTextBytes));
  if (!HasControls(text)) return absl::OkStatus();
  return BadPoint("a " + name + " with control characters");
}

Status CheckSetup(const MetricPoint::Setup& setup) {
  MILLRACE_RETURN_IF_ERROR(CheckText("version", setup.version()));
  MILLRACE_RETURN_IF_ERROR(CheckTime(setup.job_started_ms()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("features:", setup.feature_count(), kMostFeatures));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("settings:", setup.setting_size(), kMostSettings));
  for (const MetricPoint::Setup::Setting& setting : setup.setting()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("setting's flag", setting.flag()));
    MILLRACE_RETURN_IF_ERROR(CheckText("setting's value", setting.value()));
  }
  return absl::OkStatus();
}

// The counts of TopicSource, which the message keeps among the fields that it does not know.
Status CheckSource(const MetricPoint::ProducerProgress& point) {
  SourcedProgress sourced;
  if (!sourced.ParseFromString(point.SerializeAsString())) {
    return BadPoint("counts of a source that are none");
  }
  const SourceState& source = sourced.source();
  const SourceState::Labels& labels = source.labels();
  MILLRACE_RETURN_IF_ERROR(CheckText("topic", source.topic()));
  MILLRACE_RETURN_IF_ERROR(CheckText("topic of labels", labels.topic()));
  for (const uint64_t count :
       {source.rows(), source.dead_letters(), source.tombstones(), source.lost(), labels.matched(),
        labels.defaulted(), labels.unmatched(), labels.labels(), labels.unused(),
        labels.dead_letters(), labels.tombstones(), labels.lost()}) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("records of a source:", count, kMostRow));
  }
  return absl::OkStatus();
}

Status CheckProducer(const MetricPoint::ProducerProgress& point) {
  MILLRACE_RETURN_IF_ERROR(CheckSetup(point.setup()));
  MILLRACE_RETURN_IF_ERROR(CheckSource(point));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes read", point.bytes_read(), kMostBytes));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of the input", point.bytes_total(), kMostBytes));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows read", point.rows_read(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows rejected", point.rows_rejected(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows sent", point.rows_sent(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("epoch", point.epoch_of_stream(), kMostEpochs));
  return CheckAtMost("epochs", point.epochs_of_stream(), kMostEpochs);
}

Status CheckWorkers(const google::protobuf::RepeatedPtrField<WorkerProgress>& workers) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("workers:", workers.size(), kMostWorkers));
  for (const WorkerProgress& worker : workers) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("worker", worker.worker(), kMostWorkers - 1));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", worker.clock(), kMostClock));
  }
  return absl::OkStatus();
}

Status CheckServer(const MetricPoint::ServerProgress& point) {
  MILLRACE_RETURN_IF_ERROR(CheckSetup(point.setup()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shards:", point.shards(), kMostShards));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("layout", point.layout(), kMostLayouts - 1));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shards:", point.next_shards(), kMostShards));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shard", point.shard(), std::max(point.shards(), 1U) - 1));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("groups:", point.groups(), kMostShards));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("group", point.group(), std::max(point.groups(), 1U) - 1));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("exchanges:", point.exchanges(), kMostClock));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("deltas:", point.deltas_taken(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rounds:", point.rounds(), kMostClock));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("updates:", point.updates(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows trained on:", point.rows_trained(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows counted:", point.rows_counted(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows tested:", point.progressive().rows(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows at the window's end:", point.window_end(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows before a drift:", point.drift().row(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows at a drift:", point.drift().found_at(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("drifts:", point.drift().count(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", point.drift().clock(), kMostClock));
  for (const Figures* figures : {&point.progressive(), &point.tail(), &point.window()}) {
    MILLRACE_RETURN_IF_ERROR(CheckFigures(*figures));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("names of classes:", point.class_name_size(), kMostClassesTold));
  for (const std::string& name : point.class_name()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("class's name", name));
  }
  MILLRACE_RETURN_IF_ERROR(CheckWorkers(point.workers()));
  MILLRACE_RETURN_IF_ERROR(CheckText("process", point.process()));
  return CheckText("source of a copy", point.recovery().source());
}

}  // namespace

Status CheckMetricPoint(const MetricPoint& point) {
  MILLRACE_RETURN_IF_ERROR(CheckTime(point.timestamp_ms()));
  switch (point.kind_case()) {
    case MetricPoint::kProducer:
      return CheckProducer(point.producer());
    case MetricPoint::kServer:
      return CheckServer(point.server());
    case MetricPoint::kEvaluation:
      MILLRACE_RETURN_IF_ERROR(CheckAtMost("shard", point.evaluation().shard(), kMostShards - 1));
      MILLRACE_RETURN_IF_ERROR(CheckFigures(point.evaluation().holdout()));
      MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", point.evaluation().clock(), kMostClock));
      return CheckAtMost("unusable test rows:", point.evaluation().rows_rejected(), kMostRow);
    case MetricPoint::kWorker:
      return CheckSetup(point.worker().setup());
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
