// Reads what a partition holds now.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/options.h"

namespace millrace {

// Hands out the committed records of the partition, from its first to its present end. Errors: the
// first one of `on_record`, which ends the reading; Cancelled when `stop` is set; Unavailable or
// DeadlineExceeded when no broker answers, when records are deleted meanwhile, or when an end of
// before is overdue (known_end.h): try again; NotFound; PermissionDenied.
Status ReadPartition(const KafkaOptions& kafka, const std::string& client_id,
                     const std::string& topic, int32_t partition, const std::atomic<bool>& stop,
                     const std::function<Status(const ConsumedRecord&)>& on_record);

}  // namespace millrace
