// Where a program begins to read a topic that somebody else writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/options.h"

namespace millrace {

struct StartPoint {
  enum class Kind : uint8_t { kBeginning, kNow, kTime };
  Kind kind = Kind::kBeginning;
  int64_t time_ms = 0;  // of kTime: of the records' timestamps, since 1970
};

// "beginning", "now", or a time as features/time_value.h reads it. InvalidArgument names --from.
StatusOr<StartPoint> ParseStartPoint(const std::string& text);

// Of each partition, whose logs are `ranges`, the offset of the first record that is to be read.
// Errors: those of OffsetsAtTime.
StatusOr<std::vector<Offset>> OffsetsOf(const StartPoint& start, const KafkaOptions& kafka,
                                        const std::string& topic,
                                        const std::vector<OffsetRange>& ranges,
                                        const BrokerRetry& broker_retry);

// The same, once the offsets at the time are known (OffsetsAtTime; all -1 if it is of no time).
// None is behind the end of its range: where a transaction is open, the first record of the time
// may be, since the end is that of the committed records.
std::vector<Offset> FirstOffsets(StartPoint::Kind kind, const std::vector<OffsetRange>& ranges,
                                 const std::vector<Offset>& at_time);

}  // namespace millrace
