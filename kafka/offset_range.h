// Where a partition's log begins and ends. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"

namespace millrace::kafka_internal {

// The end is that of the committed records for a client with isolation.level=read_committed. Errors
// once the timeout has passed: NotFound when the cluster has no such topic or partition,
// Unavailable or DeadlineExceeded while no broker leads it or none answers.
StatusOr<OffsetRange> QueryOffsetRange(rd_kafka_t* client, const std::string& topic,
                                       int32_t partition, std::chrono::milliseconds timeout);

// The offset that stands for `at`: RD_KAFKA_OFFSET_BEGINNING, RD_KAFKA_OFFSET_END, or that of the
// first record of a time, in milliseconds (RD_KAFKA_OFFSET_END: there is none). Errors as above,
// once the deadline has passed.
StatusOr<Offset> QueryOffset(rd_kafka_t* client, const std::string& topic, int32_t partition,
                             int64_t at, std::chrono::steady_clock::time_point deadline);

}  // namespace millrace::kafka_internal
