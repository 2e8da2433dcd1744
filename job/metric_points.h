// A reader of a job's `metrics` topic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Begins so many points before the end as it is now. Waits for a broker. `wakeup` outlives the
// reader. Errors: those of the broker; Cancelled.
StatusOr<std::unique_ptr<PartitionConsumer>> ReadMetricPoints(const JobConfig& config,
                                                              int64_t points_back,
                                                              const std::atomic<bool>& stop,
                                                              Wakeup& wakeup);

}  // namespace millrace
