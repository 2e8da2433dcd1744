#include "master/model_quality.h"

#include "job/metric_points.h"
#include "job/topic_exists.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "topics/figures_verdict.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {

StatusOr<std::optional<std::string>> ReadWorseThanPrior(const JobConfig& config,
                                                        const std::atomic<bool>& stop) {
  // A job of other programs has no such topic, and who reads one that is not there waits for it.
  MILLRACE_ASSIGN_OR_RETURN(const bool has_figures,
                            TopicExists(config, TopicName(config.name(), Topic::kMetrics), stop));
  if (!has_figures) return std::nullopt;
  Wakeup wakeup;
  StatusOr<MetricPoints> points =
      MetricPoints::TryToOpen(config, "master-status", MetricPoints::kFewMinutes, &wakeup);
  MILLRACE_RETURN_IF_ERROR(points.status());
  Figures newest;
  Figures window;
  const auto take = [&newest, &window](const ConsumedRecord& record) {
    const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
    // Shard 0 tells of the whole job; what is no point is nobody's state.
    if (point.ok() && point->has_server() && point->server().shard() == 0) {
      newest = point->server().progressive();
      window = point->server().window();
    }
    return absl::OkStatus();
  };
  while (!points->is_read()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, points->Poll(take));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return WorseThanPriorText(newest, window);
}

}  // namespace millrace
