// The transactions in which a Predictor writes predictions, and how far it has read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/broker_retry.h"
#include "kafka/options.h"
#include "kafka/outcome_wait.h"
#include "kafka/producer.h"
#include "kafka/record_header.h"
#include "predictor/record_scorer.h"
#include "predictor/refused_records.h"

namespace millrace {

// Used by one thread.
class TopicWriter {
 public:
  struct Options {
    KafkaOptions kafka;
    // The consumer group whose positions are committed, and the transactional id.
    std::string group;
    std::string input;                 // the topic that is read
    std::vector<std::string> outputs;  // those that are written; the first gets the predictions
    // Gets a line now and then while Kafka does not say whether a transaction was written.
    std::function<void(const std::string& line)> warn = [](const std::string&) {};
  };

  // From now on no other Predictor of this group can write: what such a one had not committed is
  // aborted. Waits for a broker. `stop` outlives the writer. Errors: Cancelled; NotFound of a
  // topic; PermissionDenied.
  static StatusOr<std::unique_ptr<TopicWriter>> Create(Options options,
                                                       const std::atomic<bool>& stop);

  // Where the group stands in the input: of each partition the next offset; empty: none is known.
  StatusOr<std::vector<std::optional<Offset>>> Positions(int32_t partitions);

  // Errors, of Commit too. Aborted: nothing of the transaction was written, or nobody knows;
  // another TopicWriter finds out. FailedPrecondition, fenced: another Predictor has taken over.
  // Cancelled: stopped while no broker was reachable. Others are final: that no broker answered
  // within kafka.broker_timeout_s; NotFound: an output topic was deleted; Aborted, permanent: one
  // refuses a record.
  Status Send(const std::string& topic, int32_t partition, const RecordScorer::Scored& record);
  // Commits what was sent since the last commit, and these positions, the next offset of a
  // partition of the input each: all of it, or nothing.
  Status Commit(const std::map<int32_t, Offset>& positions);

  // Gives up what was sent since the last commit; nothing may be sent any more. Fenced: another
  // Predictor has taken over, and another TopicWriter would throw it out in turn. Cancelled:
  // stopped. Any other error says nothing. `waits`: until a broker is reachable; otherwise for some
  // seconds at most.
  Status Abort(bool waits);

 private:
  TopicWriter(Options options, const std::atomic<bool>& stop);
  Status Open();
  Status Begin();
  Status SendOnce(const std::string& topic, int32_t partition, const RecordScorer::Scored& record);
  Status AskForOutcome(const std::function<Status()>& call);
  Status Judge(const Status& done);
  Status OfRefusal(const Status& done);
  Status OfDeletedTopic(const Status& done) const;

  const Options options_;
  const BrokerRetry broker_retry_;
  const OutcomeWait outcome_wait_;
  std::unique_ptr<KafkaProducer> producer_;
  bool has_begun_ = false;
  std::vector<SentAnswer> sent_;       // of this transaction, by their tags
  std::vector<RecordHeader> headers_;  // scratch
};

}  // namespace millrace
