// Records of metrics to validated points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "messages/records.pb.h"

namespace millrace {

// Of what a point may hold: the end of the year 9999, and the longest text, in bytes.
inline constexpr int64_t kMostTimestampMs = 253'402'300'799'999;
inline constexpr size_t kMostTextBytes = 1000;

// What no program of a job sends, but whoever may write to the topic can: times outside of the
// years 1970 to 9999, counts that nobody comes to, shards and workers that no job has. Figures and
// losses may be any numbers. InvalidArgument with the reason.
Status CheckMetricPoint(const MetricPoint& point);

// Takes a record's value apart. InvalidArgument with the reason why it is no point.
StatusOr<MetricPoint> DecodeMetricPoint(std::string_view value);

}  // namespace millrace
