// A producer: idempotent always, transactional on request. librdkafka is included in kafka/ only.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"
#include "kafka/record_header.h"
#include "kafka/wakeup.h"

namespace millrace {

struct ProducerOptions {
  std::string client_id{};         // shows up in broker logs and metrics
  double linger_ms = 0;            // 0 for the hot path; 5 and more for bulk
  size_t queue_kbytes = 32768;     // bound on what waits to be sent
  std::string transactional_id{};  // empty: no transactions
  bool compress = false;           // lz4; for bulk only
  // When a batch fails for good, nothing that follows it in its partition is delivered.
  bool gapless = false;
  // At most one request is in flight to each broker; always so with transactions. More are faster,
  // but then a broker that dies may end this producer, too: see KafkaProducer.
  bool one_request_at_a_time = false;
};

// What of its records a broker refuses for good, by the settings of their topic. (It refuses whole
// batches, so a batch has one such record at least.)
enum class Refused : uint8_t {
  kNothing,  // the delivery failed otherwise
  kTime,     // a timestamp is too far from the broker's clock
  kRecord,   // a record without a key in a compacted topic, say
  kSize,     // a record, or the batch, is too large
  kOther,    // by a policy of the broker's operators
};

struct FailedDelivery {
  std::string topic;
  int32_t partition = 0;
  std::string reason;
  bool is_permanent = false;  // the broker would refuse the record again
  Refused refused = Refused::kNothing;
  uint64_t tag = 0;  // that of SendWithHeaders
};

// Records of one partition are delivered in order and once (enable.idempotence, acks=all); a broker
// that is unreachable is waited for without a time limit (message.timeout.ms=0), unless the user's
// settings differ. But a broker that dies while two requests are in flight may end a producer
// (FailedPrecondition): librdkafka before 2.3.0 then counts on both having arrived (its pull
// request 4438), and is at odds with the broker if the second overtakes the first when they are
// repeated. The owner then creates another producer.
//
// Used by one thread, except that different producers may be used by different threads.
//
// Destruction does not wait: records that no Flush has confirmed may be lost.
class KafkaProducer {
 public:
  // Errors: an unknown or invalid setting (InvalidArgument, naming it; values of secrets are never
  // shown). `wakeup` (may be null, outlives the producer) is notified of delivery reports.
  static StatusOr<std::unique_ptr<KafkaProducer>> Create(const KafkaOptions& kafka,
                                                         const ProducerOptions& options,
                                                         Wakeup* wakeup);
  virtual ~KafkaProducer() = default;

  // Looks the topics up and keeps their handles: a topic first named by a Send costs a second.
  // Errors: NotFound; DeadlineExceeded or Unavailable when no broker answers for 10 s.
  virtual Status Prepare(const std::vector<std::string>& topics) = 0;

  // Copies key and value; a default-constructed view (of no data) is sent as Kafka's null: no key,
  // or a tombstone. timestamp_ms 0: now. Errors: Aborted when its transaction has failed, or was
  // not started; ResourceExhausted when the queue is full: Poll and try again; InvalidArgument
  // above kMaxRecordBytes; NotFound for a topic or partition that does not exist;
  // FailedPrecondition: a fatal error or fenced; this producer can send nothing any more.
  virtual Status Send(const std::string& topic, int32_t partition, std::string_view key,
                      std::string_view value, int64_t timestamp_ms) = 0;
  Status Send(const std::string& topic, int32_t partition, std::string_view key,
              std::string_view value) {
    return Send(topic, partition, key, value, 0);
  }
  // The same with headers, in their order. `tag` comes back if the delivery fails.
  virtual Status SendWithHeaders(const std::string& topic, int32_t partition, std::string_view key,
                                 std::string_view value, int64_t timestamp_ms,
                                 std::span<const RecordHeader> headers, uint64_t tag) = 0;
  // The same, but takes the value over, unless it fails: a large one is not copied.
  virtual Status SendOwned(const std::string& topic, int32_t partition, std::string_view key,
                           std::string& value) = 0;

  // Serves delivery reports, waiting for one at most `timeout`.
  virtual void Poll(std::chrono::milliseconds timeout) = 0;
  // Deliveries that failed permanently since the last call (without those that AbortTransaction
  // dropped). After a fatal error they include all outstanding records.
  virtual std::vector<FailedDelivery> TakeFailures() = 0;
  // Records handed over and not yet reported on.
  virtual size_t outstanding() const = 0;
  // Waits until nothing is outstanding. DeadlineExceeded when it takes longer; NotFound with the
  // remedy once one of its topics has been gone for some seconds.
  virtual Status Flush(std::chrono::milliseconds timeout) = 0;
  // Why an error may have come: NotFound with the remedy when one of its topics is gone, which
  // takes some seconds to be sure of. OK at once when all are there, and after `timeout`.
  virtual Status CheckTopics(std::chrono::milliseconds timeout) = 0;
  // The offset after the last delivered record of a partition, by delivery reports, and, once there
  // is one, of this transaction; -1: none yet.
  virtual Offset DeliveredEnd(const std::string& topic, int32_t partition) const = 0;

  // Transactions. Errors: FailedPrecondition = fatal, or fenced by a newer instance (IsFenced):
  // this process must stop; Aborted = the transaction must be aborted, then a new one may begin;
  // Unavailable = try the same call again.
  virtual Status InitTransactions(std::chrono::milliseconds timeout) = 0;
  virtual Status BeginTransaction() = 0;
  // Has the transaction commit the positions of a consumer group, too: the next offset of each of
  // these partitions of `topic`. No member of the group is asked: what keeps two readers apart is
  // the transactional id. Aborted, marked as permanent: the group's ACL is missing.
  virtual Status SendOffsets(const std::string& group, const std::string& topic,
                             const std::map<int32_t, Offset>& next,
                             std::chrono::milliseconds timeout) = 0;
  virtual Status CommitTransaction(std::chrono::milliseconds timeout) = 0;
  virtual Status AbortTransaction(std::chrono::milliseconds timeout) = 0;
  // OK while the transaction takes records. Aborted with the reason when it has failed meanwhile:
  // its records are not delivered then, and no Flush comes to an end. Marked as permanent
  // (base/error_marks.h) when the next one would fail, too.
  virtual Status CheckTransaction() = 0;
};

}  // namespace millrace
