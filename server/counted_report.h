// Tells the job's master what shard 0 has counted, where rows are leased.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/backoff.h"
#include "base/status.h"
#include "kafka/broker_retry.h"
#include "kafka/producer.h"
#include "messages/job.pb.h"
#include "tasks/counted_rows.h"
#include "tasks/shard_task.h"

namespace millrace {

// Writes to `control`. What gets lost is said again. Used by one thread.
class CountedReport {
 public:
  // Waits for a broker. `config` outlives it. NotFound: no master has run the job.
  static StatusOr<std::unique_ptr<CountedReport>> Create(const JobConfig& config,
                                                         const BrokerRetry& broker_retry);

  // REQUIRES shard 0. Does not wait, unless the client has failed for good: then another one is
  // made.
  Status Tick(const ShardTask& shard, std::chrono::steady_clock::time_point now);
  // The same when nothing more will be counted: waits a little for a broker.
  Status TellLast(const ShardTask& shard, std::chrono::steady_clock::time_point now);

 private:
  CountedReport(const JobConfig& config, const BrokerRetry& broker_retry);
  Status Connect();
  Status Send(const LeaseCommand& command);
  // Warns, but not each time.
  void NotDelivered(std::string_view reason, std::chrono::steady_clock::time_point now);

  const JobConfig& config_;
  const BrokerRetry broker_retry_;
  const std::string topic_;
  CountedRows counted_;
  std::unique_ptr<KafkaProducer> producer_;
  Backoff backoff_{std::chrono::milliseconds(500), std::chrono::seconds(10)};
};

}  // namespace millrace
