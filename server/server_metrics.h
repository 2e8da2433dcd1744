// The points that a server sends to `metrics`, for displays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "server/evaluator.h"
#include "tasks/shard_task.h"
#include "topics/outgoing_record.h"

namespace millrace {

// This process in its heartbeats: its id and its host, as text.
const std::string& ThisProcess();

// What points say of the job besides the shard's state.
struct PointSettings {
  JobTraining training;
  size_t classes = 0;                      // 0: a regression
  std::vector<std::string> class_names{};  // by class id, fit to be shown; or none
  MetricPoint::Setup setup{};              // of shard 0; another shard's has its version
};

// `aborted_checkpoints`: in a row. Of a sequential round that has begun, the point says of each
// worker whether its update has come (ServerProcessor::WaitedFor).
OutgoingRecord ProgressPoint(const ShardTask& task, const PointSettings& settings,
                             uint32_t aborted_checkpoints, bool ended,
                             const std::optional<MetricPoint::ServerProgress::Recovery>& recovery);
// The same of a shard without a log of updates (tasks/replicated_shard.h). `unsaved_updates`: no
// checkpoint has them.
OutgoingRecord ProgressPoint(const ServerProcessor& processor, ShardId shard,
                             uint64_t unsaved_updates, const PointSettings& settings);
// The last point of a process that stops cleanly before the job's end.
OutgoingRecord StoppedPoint(const ShardTask& task, const PointSettings& settings,
                            uint32_t aborted_checkpoints, bool ended,
                            const std::optional<MetricPoint::ServerProgress::Recovery>& recovery);
// Of a job without servers, whose checkpoints member 0 makes.
OutgoingRecord StoppedPoint(const ServerProcessor& processor, ShardId shard,
                            uint64_t unsaved_updates, const PointSettings& settings);
// `rows_rejected`: of the test file.
OutgoingRecord EvaluationPoint(ShardId shard, Clock clock, const EvaluationFigures& figures,
                               uint64_t rows_rejected, bool last);

}  // namespace millrace
