// Where a consumer group stands. librdkafka is included in kafka/ only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"

namespace millrace {

// Of each partition 0, 1, .. of a topic the offset that the group has committed; empty: none, or it
// has expired. A client of its own asks, once, and joins no group. Errors: Unavailable or
// DeadlineExceeded after the timeout, also while a transaction that commits such offsets is not
// completed; PermissionDenied.
StatusOr<std::vector<std::optional<Offset>>> CommittedOffsets(const KafkaOptions& kafka,
                                                              const std::string& group,
                                                              const std::string& topic,
                                                              int32_t partitions,
                                                              std::chrono::milliseconds timeout);

}  // namespace millrace
