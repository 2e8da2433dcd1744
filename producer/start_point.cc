#include "producer/start_point.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "features/time_value.h"
#include "kafka/offsets_at_time.h"
#include "kafka/timeouts.h"

namespace millrace {

StatusOr<StartPoint> ParseStartPoint(const std::string& text) {
  if (text == "beginning") return StartPoint{};
  if (text == "now") return StartPoint{.kind = StartPoint::Kind::kNow};
  const std::optional<RecordedTime> time = ParseTime(text);
  if (!time) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--from: give beginning, now, or a time such as 2013-01-31T10:00:00Z (of the records' "
        "timestamps), not '",
        text, "'"));
  }
  const auto since_1970 = std::chrono::duration_cast<std::chrono::milliseconds>(*time);
  // Kafka takes -1 and -2 for the end and the beginning.
  if (since_1970.count() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from: '", text, "' is before 1970, and no record is: give beginning"));
  }
  return StartPoint{.kind = StartPoint::Kind::kTime, .time_ms = since_1970.count()};
}

StatusOr<std::vector<Offset>> OffsetsOf(const StartPoint& start, const KafkaOptions& kafka,
                                        const std::string& topic,
                                        const std::vector<OffsetRange>& ranges,
                                        const BrokerRetry& broker_retry) {
  std::vector<Offset> at_time(ranges.size(), -1);
  if (start.kind == StartPoint::Kind::kTime) {
    MILLRACE_ASSIGN_OR_RETURN(at_time, broker_retry.Run([&] {
      return OffsetsAtTime(kafka, topic, static_cast<int32_t>(ranges.size()), start.time_ms,
                           kBrokerCall);
    }));
  }
  return FirstOffsets(start.kind, ranges, at_time);
}

std::vector<Offset> FirstOffsets(StartPoint::Kind kind, const std::vector<OffsetRange>& ranges,
                                 const std::vector<Offset>& at_time) {
  std::vector<Offset> offsets;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const OffsetRange& range = ranges[i];
    const bool is_at_end = kind != StartPoint::Kind::kBeginning && at_time[i] < 0;
    const Offset first = std::min(std::max(at_time[i], range.begin), range.end);
    offsets.push_back(is_at_end ? range.end : first);
  }
  return offsets;
}

}  // namespace millrace
