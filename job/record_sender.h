// Sends the tasks' records, and blocks when the queue is full instead of growing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/status.h"
#include "kafka/broker_retry.h"
#include "kafka/producer.h"
#include "messages/job.pb.h"
#include "topics/outgoing_record.h"
#include "topics/topics.h"

namespace millrace {

// A client that has failed for good is replaced by another one: librdkafka's idempotent producer
// gives up when a broker comes back without records that it had taken, and, before 2.3.0, also when
// it only seems so (see KafkaProducer). Records that were lost with it count as failed deliveries.
// Used by one thread.
class RecordSender {
 public:
  // `config` and `broker_retry` outlive the sender.
  static StatusOr<std::unique_ptr<RecordSender>> Create(const JobConfig& config,
                                                        std::string client_id,
                                                        const std::vector<Topic>& topics,
                                                        const BrokerRetry& broker_retry,
                                                        Wakeup* wakeup);

  // Sends all and empties `records`. Waits while the queue is full.
  Status Send(std::vector<OutgoingRecord>& records);
  Status SendOne(OutgoingRecord record);
  // Serves delivery reports. True when a delivery has failed permanently: the caller must then
  // announce its state again. The reason is logged. Deliveries that fail again and again (no
  // permission to write) are reported after longer and longer times.
  bool DeliveryFailed();
  Status Flush(std::chrono::milliseconds timeout) { return producer_->Flush(timeout); }

 private:
  RecordSender(const JobConfig& config, std::string client_id, const std::vector<Topic>& topics,
               const BrokerRetry& broker_retry, Wakeup* wakeup);
  Status Connect();

  const JobConfig& config_;
  ProducerOptions options_;
  const BrokerRetry& broker_retry_;
  Wakeup* wakeup_;
  std::unique_ptr<KafkaProducer> producer_;
  std::vector<std::string> prepared_;                     // names of the topics sent to
  std::array<std::string, std::size(kAllTopics)> names_;  // by topic
  int replaced_ = 0;
  bool lost_ = false;    // records were lost with a client that was replaced
  uint64_t failed_ = 0;  // deliveries that were not reported yet
  std::string why_;      // the last of them
  Backoff backoff_{std::chrono::milliseconds(100), std::chrono::seconds(10)};
};

}  // namespace millrace
