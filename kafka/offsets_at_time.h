// Where a topic stands at a time. librdkafka is included in kafka/ only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"

namespace millrace {

// Of each partition 0, 1, .. of a topic the offset of its first record of this time or later
// (milliseconds since 1970; of record timestamps), or -1 if it has none. A client of its own asks,
// once. Errors: NotFound: no such topic or partition; Unavailable or DeadlineExceeded after the
// timeout; PermissionDenied.
StatusOr<std::vector<Offset>> OffsetsAtTime(const KafkaOptions& kafka, const std::string& topic,
                                            int32_t partitions, int64_t timestamp_ms,
                                            std::chrono::milliseconds timeout);

}  // namespace millrace
