// Follows a job's topic `plan`.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
#include "kafka/options.h"
#include "kafka/wakeup.h"
#include "topics/planned_hosts.h"
#include "topics/planned_leases.h"

namespace millrace {

// Used by one thread.
class PlanFollower {
 public:
  // `wakeup`, which outlives it, is notified of records.
  static StatusOr<std::unique_ptr<PlanFollower>> Create(const KafkaOptions& kafka,
                                                        const std::string& job, bool wants_leases,
                                                        Wakeup* wakeup);

  // Begins to read the topic. NotFound: there is none, so no MasterApp has run the job;
  // Unavailable or DeadlineExceeded after the timeout; PermissionDenied.
  Status Begin(std::chrono::milliseconds timeout);
  // Takes what has come, without waiting. Whether that has changed what the plan is known to say of
  // processes; not before its end has been reached. REQUIRES Begin. Errors: PermissionDenied;
  // NotFound when the topic is deleted; Unavailable when its records are, or when an end of before
  // is overdue.
  StatusOr<bool> Poll();

  // Whether its end has been reached.
  bool is_read() const { return end_.is_reached(); }
  const PlannedHosts& hosts() const { return hosts_; }
  // Where the job leases rows. Only for who has asked for them in Create.
  PlannedLeases& leases() { return leases_; }

 private:
  PlanFollower(std::string topic, bool wants_leases)
      : topic_(std::move(topic)), wants_leases_(wants_leases) {}

  const std::string topic_;
  const bool wants_leases_;
  std::unique_ptr<PartitionConsumer> consumer_;
  KnownEnd end_;  // of the topic when the reading began
  PlannedHosts hosts_;
  PlannedLeases leases_;
};

}  // namespace millrace
