// What a server tells displays.
#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "processors/server_processor.h"
#include "runtime/evaluator.h"
#include "runtime/outgoing_record.h"

namespace millrace {

int64_t NowMs();  // since 1970

OutgoingRecord ProgressPoint(const ServerProcessor& processor, ShardId shard,
                             const JobTraining& training, size_t classes, bool ended,
                             const std::optional<MetricPoint::ServerProgress::Recovery>& recovery);
OutgoingRecord EvaluationPoint(ShardId shard, Clock clock, const EvaluationFigures& figures,
                               bool last);

}  // namespace millrace
