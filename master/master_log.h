// A master's side of Kafka: its transactions, and the records of `control`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Waits for a broker, then creates `control` and `plan`, or checks those that exist. Errors:
// Cancelled when `stop` is set; KafkaAdmin::EnsureTopics's.
Status PrepareMasterTopics(const JobConfig& config, const std::atomic<bool>& stop);

// Used by one thread.
class MasterLog {
 public:
  // Fences every earlier master of the job: its transactional id is JOB.master. What such a master
  // had not committed is aborted. Waits for a broker. `stop` ends the waits of Create and Follow
  // only; it and `wakeup`, which is notified of records, outlive the log. REQUIRES: the topics are
  // prepared. Errors: Cancelled; PermissionDenied; NotFound.
  static StatusOr<std::unique_ptr<MasterLog>> Create(const JobConfig& config,
                                                     const std::atomic<bool>& stop, Wakeup* wakeup);

  // Reads `control` from this offset on.
  Status Follow(Offset next);
  using TakeRecord = std::function<void(Offset offset, std::string_view value)>;
  // Hands out committed records that have come, without waiting. FailedPrecondition: records that
  // were not read yet are gone. Unavailable: some may be (KnownEnd::Overdue).
  Status Poll(const TakeRecord& take);
  // Whether the end of `control` has been reached since Follow.
  bool was_at_end() const { return end_.is_reached(); }

  struct Transaction {
    // Records of `plan`, key and value; a tombstone without one.
    std::vector<std::pair<std::string, std::optional<std::string>>> plan;
    std::vector<std::string> control;  // values
  };
  // Writes all of it, or nothing; waits while no broker answers (config.broker_timeout_s).
  // Aborted: nothing was written, or nobody knows; another MasterLog finds out.
  // FailedPrecondition, fenced: another master has taken over. Others are final.
  Status Write(const Transaction& transaction);
  // The offset after the last record of `control` that Write has written; -1: there is none.
  Offset written_end() const { return written_end_; }

  // Deletes the records of `control` before `offset`, which a committed state holds.
  Status DeleteBefore(Offset offset);

 private:
  MasterLog(const JobConfig& config, const std::atomic<bool>& stop, Wakeup* wakeup);
  Status Open(const std::string& transactional_id);
  Status Send(const std::string& topic, std::string_view key, std::string_view value);
  Status WriteAll(const Transaction& transaction);

  const KafkaOptions kafka_;
  const std::string control_;
  const std::string plan_;
  const std::atomic<bool> never_ = false;
  const BrokerRetry start_retry_;
  const BrokerRetry write_retry_;
  Wakeup* const wakeup_;
  std::unique_ptr<KafkaAdmin> admin_;
  std::unique_ptr<KafkaProducer> producer_;
  std::unique_ptr<PartitionConsumer> consumer_;
  KnownEnd end_;
  Offset written_end_ = -1;
};

}  // namespace millrace
