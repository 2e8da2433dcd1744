// A reader of a job's `metrics` topic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Reads from so many points before the end on. Used by one thread.
class MetricPoints {
 public:
  // Points of a few minutes of a job of some shards.
  static constexpr int64_t kFewMinutes = 4096;

  // Waits for a broker. `wakeup` (may be null) is notified when there is something to poll; it
  // outlives the reader. Errors: those of the broker; Cancelled.
  static StatusOr<MetricPoints> Open(const JobConfig& config, const std::string& client_id,
                                     int64_t points_back, const std::atomic<bool>& stop,
                                     Wakeup* wakeup);
  // Asks a broker once (kBrokerCall).
  static StatusOr<MetricPoints> TryToOpen(const JobConfig& config, const std::string& client_id,
                                          int64_t points_back, Wakeup* wakeup);

  using Take = std::function<Status(const ConsumedRecord&)>;
  // Hands out what has come, without waiting; returns the number of events. Errors: those of
  // `take` and of the broker.
  StatusOr<size_t> Poll(const Take& take);
  // What stood there when reading began has been handed out, or is not there (any more).
  bool is_read() const { return is_read_; }

 private:
  std::unique_ptr<PartitionConsumer> consumer_;
  KnownEnd end_;
  bool is_read_ = false;
};

}  // namespace millrace
