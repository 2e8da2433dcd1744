// Sends what tasks want sent, with back-pressure instead of memory.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "runtime/kafka/producer.h"
#include "runtime/outgoing_record.h"
#include "runtime/patience.h"
#include "topics/topics.h"

namespace millrace {

// Used by one thread.
class RecordSender {
 public:
  static StatusOr<std::unique_ptr<RecordSender>> Create(const JobConfig& config,
                                                        std::string client_id,
                                                        const std::vector<Topic>& topics,
                                                        const Patience& patience, Wakeup* wakeup);

  // Sends all and empties `records`. Waits while the queue is full.
  Status Send(std::vector<OutgoingRecord>& records);
  // Serves delivery reports. True when a delivery has failed for good: what stands in state is to
  // be announced again.
  bool DeliveryFailed();
  Status Flush(std::chrono::milliseconds timeout) { return producer_->Flush(timeout); }

 private:
  std::unique_ptr<KafkaProducer> producer_;
  std::array<std::string, std::size(kAllTopics)> names_;
};

}  // namespace millrace
