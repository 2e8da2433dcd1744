// Points of `metrics` of any content: refused, or what a display computes of them is in bounds.
#include <string>
#include <vector>

#include "base/check.h"
#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "topics/figures_codec.h"
#include "topics/frame.h"
#include "topics/metric_point_codec.h"
#include "watch/summary.h"
#include "watch/terminal_text.h"

namespace millrace::fuzz {
namespace {

void CheckProgress(JobProgress& progress) {
  if (const auto share = progress.stream_share()) {
    MILLRACE_CHECK(share->sent >= 0 && share->sent <= 1);
    MILLRACE_CHECK(share->learnt >= 0 && share->learnt <= 1);
  }
  if (const auto left = progress.seconds_left()) MILLRACE_CHECK(*left >= 0);
  if (const auto duration = progress.duration_seconds()) MILLRACE_CHECK(*duration >= 0);
  if (const auto rate = progress.rounds_per_second()) MILLRACE_CHECK(*rate >= 0);
  if (const auto rate = progress.rows_per_second()) MILLRACE_CHECK(*rate >= 0);
  if (progress.producer()) MILLRACE_CHECK(progress.rows_read() >= progress.producer()->rows_read());
  progress.rows_replaced();
  if (const auto rate = progress.recent_rows_per_second()) MILLRACE_CHECK(*rate >= 0);
  if (const auto rate = progress.recent_rounds_per_second()) MILLRACE_CHECK(*rate >= 0);
  if (progress.complete()) MILLRACE_CHECK(progress.ended());
  const JobState state = ComputeJobState(progress, progress.last_timestamp_ms());
  MILLRACE_CHECK((state.kind == JobState::Kind::kEnded) == progress.ended());
  for (const ProgramAge& program : state.programs) MILLRACE_CHECK(program.seconds >= 0);
  progress.recoveries();
  progress.rows_tested();
  progress.TakeCurvePoints();
}

void Show(const JobProgress& progress) {
  SummaryJson(progress, "fuzz", "localhost:9092");
  for (const std::string& line :
       SummaryTable(progress, {.job = "fuzz", .brokers = {}, .style = {}, .width = 60})) {
    MILLRACE_CHECK(ColumnsOf(line) <= 60);
  }
}

// Figures whose bins, classes and cells are all there to be changed.
void FillFigures(Figures& figures) {
  EvaluationSums sums;
  sums.Add(0, std::vector<float>{0.75f, 0.25f});
  sums.Add(1, std::vector<float>{0.75f, 0.25f});
  ToProto(ComputeFigures(sums, 2), figures);
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  JobProgress progress;
  MetricPoint points[3];
  points[0].mutable_producer()->set_rows_sent(100);
  points[1].mutable_server()->set_shards(1 + static_cast<uint32_t>(bytes.Below(3)));
  points[1].mutable_server()->add_workers();
  FillFigures(*points[2].mutable_evaluation()->mutable_holdout());
  FillFigures(*points[1].mutable_server()->mutable_progressive());
  FillFigures(*points[1].mutable_server()->mutable_window());
  points[1].mutable_server()->add_class_name("a");
  points[0].mutable_producer()->mutable_setup()->set_version("0.1.0");
  points[1].mutable_server()->mutable_setup()->add_setting()->set_flag("--a");
  int64_t now_ms = 1000;
  while (!bytes.empty()) {
    MetricPoint& point = points[bytes.Below(3)];
    const MetricPoint before = point;
    point.set_timestamp_ms(now_ms += static_cast<int64_t>(bytes.Byte()));
    if (!bytes.Chance(32)) Mutate(point, bytes);
    std::string value = MakeFrames(point.SerializeAsString(), 0).front();
    if (bytes.Chance(16)) Mutate(value, bytes);
    const StatusOr<MetricPoint> decoded = DecodeMetricPoint(value);
    if (!decoded.ok()) {
      point = before;
      continue;
    }
    progress.Fold(*decoded);
    CheckProgress(progress);
    if (bytes.Chance(8)) Show(progress);
  }
  progress.Finish();
  progress.TakeCurvePoints();
  Show(progress);
}

}  // namespace millrace::fuzz
