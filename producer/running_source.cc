#include "producer/running_source.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "job/metric_points.h"
#include "kafka/timeouts.h"
#include "producer/progress_publisher.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr milliseconds kSilence = 3 * kProgressEvery;
// By the clocks of two machines. What is older was sent by who has stopped long since.
constexpr milliseconds kYoung = std::chrono::seconds(10);

bool IsOfARunningProducer(const MetricPoint& point) {
  const auto now = std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch());
  return !point.producer().ended() &&
         std::chrono::abs(now - milliseconds(point.timestamp_ms())) < kYoung;
}

}  // namespace

Status CheckThatNoSourceRuns(const JobConfig& config, const std::atomic<bool>& stop) {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      MetricPoints metrics,
      MetricPoints::Open(config, "takeover", MetricPoints::kFewMinutes, stop, &wakeup));
  bool may_run = false;
  const auto take = [&](const ConsumedRecord& record) -> Status {
    if (record.key != kProducerSeries) return absl::OkStatus();
    const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
    if (!point.ok() || !point->has_producer()) return absl::OkStatus();
    may_run = IsOfARunningProducer(*point);
    if (!metrics.is_read() || !may_run) return absl::OkStatus();
    return MarkFenced(absl::FailedPreconditionError(absl::StrCat(
        "another TopicSource or CsvProducer of the job ", config.name(),
        " is running: its progress comes to ", TopicName(config.name(), Topic::kMetrics),
        ". Leave the job to it, or stop it first; from one that hangs, or was killed, TopicSource "
        "takes over")));
  };
  std::optional<steady_clock::time_point> read;  // since when what comes is new
  while (!read || (may_run && steady_clock::now() - *read < kSilence)) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, metrics.Poll(take));
    if (metrics.is_read() && !read) read = steady_clock::now();
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace millrace
