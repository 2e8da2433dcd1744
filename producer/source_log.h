// The job's side of TopicSource: what it has written to the job's topics, and its transactions.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "kafka/broker_retry.h"
#include "kafka/options.h"
#include "kafka/outcome_wait.h"
#include "kafka/producer.h"
#include "messages/job.pb.h"
#include "messages/source.pb.h"
#include "producer/source_batch.h"
#include "topics/partitioning.h"
#include "topics/row_batch.h"

namespace millrace {

// The key of the record of the job topic that has the state of a source whose last transactions had
// no rows. Of several the newest counts.
inline constexpr char kSourceStateKey[] = "source:state";

// Used by one thread.
class SourceLog {
 public:
  using Warn = std::function<void(const std::string& line)>;

  // From now on no other source of this job can write: its transactional id is JOB-source. What
  // such a source had not committed is aborted. Waits for a broker. `stop` outlives the log. `warn`
  // gets a line now and then while Kafka does not say whether a transaction was written.
  // Errors: Cancelled; NotFound of a topic; PermissionDenied.
  static StatusOr<std::unique_ptr<SourceLog>> Create(const JobConfig& config,
                                                     const std::atomic<bool>& stop, Warn warn);

  struct Found {
    std::optional<SourceState> state;  // none: no source has begun
    bool ended = false;                // the ends of all partitions are there
  };
  // What is there of `topic`'s rows, in the partitions of all the job's `workers`. Errors: those of
  // NewestState() and of ReadTails().
  StatusOr<Found> Find(const std::string& topic, const RowShape& shape, const Dealing& dealing,
                       uint32_t workers);

  // Writes all of it, or nothing. Aborted: nothing was written, or nobody knows; another SourceLog
  // finds out. FailedPrecondition, fenced: another source has taken over. Cancelled: stopped while
  // no broker was reachable. Others are final, also that no broker answered within
  // --broker-timeout.
  Status Write(const SourceBatch::Transaction& transaction);

  const std::string& input_data() const { return input_data_; }

 private:
  SourceLog(const JobConfig& config, const std::atomic<bool>& stop, Warn warn);
  Status Open();
  StatusOr<std::optional<SourceState>> ReadJobState();
  Status Send(const std::string& topic, int32_t partition, std::string_view key,
              std::string_view value);
  Status WriteAll(const SourceBatch::Transaction& transaction);

  const KafkaOptions kafka_;
  const std::string transactional_id_;
  const std::string job_;
  const std::string input_data_;
  const std::string dead_letters_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  const OutcomeWait outcome_wait_;
  std::unique_ptr<KafkaProducer> producer_;
};

}  // namespace millrace
