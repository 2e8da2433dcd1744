// Reads from Kafka the ends of a topic of rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kafka/options.h"
#include "producer/resume_plan.h"
#include "topics/row_codec.h"

namespace millrace {

struct TailReading {
  std::string topic;
  uint32_t partitions = 1;
  RowShape shape;
  // No producer can have written to the topic before. Otherwise requests of a producer that was
  // killed a moment ago may still be on their way to the broker, so the tails are read until they
  // do not change.
  bool untouched = false;
};

// One tail per partition. Errors: Cancelled; FailedPrecondition when the records of a partition
// were all deleted, or none of them is a row of this job, or another producer is writing;
// Unavailable and DeadlineExceeded when a broker is unreachable: try again.
StatusOr<std::vector<PartitionTail>> ReadTails(const KafkaOptions& kafka,
                                               const TailReading& reading,
                                               const std::atomic<bool>& stop);

}  // namespace millrace
