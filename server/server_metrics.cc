#include "server/server_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/host_name.h"
#include "topics/drift_codec.h"
#include "topics/figures_codec.h"
#include "topics/frame.h"

namespace millrace {
namespace {

OutgoingRecord Record(std::string series, const MetricPoint& point) {
  return {Topic::kMetrics, 0, std::move(series),
          std::move(MakeFrames(point.SerializeAsString(), 0).front())};
}

OutgoingRecord Record(const MetricPoint& point) {
  return Record("server/" + std::to_string(point.server().shard()), point);
}

// Only shard 0 counts tested rows.
void AddFigures(const ServerProcessor& processor, const PointSettings& settings,
                MetricPoint::ServerProgress& server) {
  const size_t classes = settings.classes;
  *server.mutable_progressive() = ToFigures(processor.progressive(), classes);
  if (processor.tail().rows > 0) {
    *server.mutable_tail() = ToFigures(processor.tail(), classes);
  }
  if (processor.window().last().rows > 0) {
    *server.mutable_window() = ToFigures(processor.window().last(), classes);
    server.set_window_end(processor.window().last_end());
  }
  if (processor.drift().last().count > 0) {
    ToProto(processor.drift().last(), *server.mutable_drift());
  }
  if (server.shard() != 0) return;
  server.mutable_class_name()->Add(settings.class_names.begin(), settings.class_names.end());
}

MetricPoint MakeProgress(const ServerProcessor& processor, ShardId shard, uint64_t unsaved_updates,
                         const PointSettings& settings) {
  MetricPoint point;
  point.set_timestamp_ms(NowMs());
  MetricPoint::ServerProgress& server = *point.mutable_server();
  const VectorClock& clocks = processor.clocks();
  server.set_shard(shard);
  Clock newest = 0;
  uint64_t staleness = 0;
  uint64_t rows_counted = 0;
  const std::vector<WorkerId> missing = processor.WaitedFor();
  for (const auto& [worker, entry] : clocks.entries()) {
    if (!processor.has_been_there(worker)) continue;
    WorkerProgress& progress = *server.add_workers();
    progress.set_worker(worker);
    progress.set_clock(entry.clock);
    progress.set_left(entry.left);
    progress.set_pending(!missing.empty() && !entry.left &&
                         !std::ranges::binary_search(missing, worker));
    progress.set_buffer_rows(processor.buffer_rows(worker));
    newest = std::max(newest, entry.clock);
    rows_counted += processor.rows_end(worker);
    if (!entry.left && processor.Released(worker)) {
      staleness = std::max(staleness, entry.clock - *clocks.Min());
    }
  }
  server.set_rounds(clocks.Min().value_or(newest));
  server.set_updates(processor.counters().gradients_accepted());
  server.set_rows_counted(rows_counted);
  server.set_rows_trained(processor.rows_trained());
  server.set_duplicates_ignored(processor.counters().duplicates_ignored());
  server.set_non_finite_updates(processor.counters().non_finite_updates());
  server.set_refused(processor.counters().refused());
  server.set_undecodable_rows(processor.counters().undecodable_rows());
  server.set_staleness(staleness);
  server.set_unsaved_updates(unsaved_updates);
  server.set_train_loss(processor.train_loss());
  AddFigures(processor, settings, server);
  server.set_snapshot_under_way(processor.open_snapshot().value_or(0));
  server.set_snapshot_given_up(processor.snapshot_given_up());
  server.set_snapshot_newest(processor.newest_snapshot());
  server.set_snapshot_request(processor.snapshot_request());
  server.set_time_jumps(processor.counters().time_jumps());
  server.set_process(ThisProcess());
  if (shard == 0) {
    *server.mutable_setup() = settings.setup;
  } else {
    server.mutable_setup()->set_version(settings.setup.version());
  }
  *server.mutable_training() = settings.training.training();
  server.set_shards(settings.training.shards());
  server.set_groups(processor.options().groups);
  server.set_group(processor.options().group);
  server.set_exchanges(processor.sync().exchanges());
  server.set_deltas_taken(processor.sync().deltas_taken());
  server.set_layout(settings.training.layout());
  server.set_next_shards(processor.seal().next_shards());
  return point;
}

MetricPoint MakeProgress(const ShardTask& task, const PointSettings& settings,
                         uint32_t aborted_checkpoints, bool ended,
                         const std::optional<MetricPoint::ServerProgress::Recovery>& recovery) {
  MetricPoint point =
      MakeProgress(task.processor(), task.shard(), task.unsaved_updates(), settings);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  server.set_aborted_checkpoints(aborted_checkpoints);
  server.set_ended(ended);
  if (recovery) *server.mutable_recovery() = *recovery;
  return point;
}

}  // namespace

const std::string& ThisProcess() {
  static const std::string name =
      "process " + std::to_string(getpid()) + " on " + HostName().value_or("an unnamed host");
  return name;
}

OutgoingRecord ProgressPoint(const ShardTask& task, const PointSettings& settings,
                             uint32_t aborted_checkpoints, bool ended,
                             const std::optional<MetricPoint::ServerProgress::Recovery>& recovery) {
  return Record(MakeProgress(task, settings, aborted_checkpoints, ended, recovery));
}

OutgoingRecord ProgressPoint(const ServerProcessor& processor, ShardId shard,
                             uint64_t unsaved_updates, const PointSettings& settings) {
  return Record(MakeProgress(processor, shard, unsaved_updates, settings));
}

OutgoingRecord StoppedPoint(const ShardTask& task, const PointSettings& settings,
                            uint32_t aborted_checkpoints, bool ended,
                            const std::optional<MetricPoint::ServerProgress::Recovery>& recovery) {
  MetricPoint point = MakeProgress(task, settings, aborted_checkpoints, ended, recovery);
  point.mutable_server()->set_stopped(true);
  return Record(point);
}

OutgoingRecord StoppedPoint(const ServerProcessor& processor, ShardId shard,
                            uint64_t unsaved_updates, const PointSettings& settings) {
  MetricPoint point = MakeProgress(processor, shard, unsaved_updates, settings);
  point.mutable_server()->set_stopped(true);
  return Record(point);
}

OutgoingRecord EvaluationPoint(ShardId shard, Clock clock, const EvaluationFigures& figures,
                               uint64_t rows_rejected, bool last) {
  MetricPoint point;
  point.set_timestamp_ms(NowMs());
  MetricPoint::Evaluation& evaluation = *point.mutable_evaluation();
  evaluation.set_shard(shard);
  evaluation.set_clock(clock);
  ToProto(figures, *evaluation.mutable_holdout());
  evaluation.set_rows_rejected(rows_rejected);
  evaluation.set_last(last);
  return Record("evaluation/" + std::to_string(shard), point);
}

}  // namespace millrace
