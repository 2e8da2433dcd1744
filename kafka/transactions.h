// What all do alike who write in transactions and, when one fails, begin anew with another
// producer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kafka/broker_retry.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "kafka/timeouts.h"

namespace millrace {

// One call of a transaction, or of what goes with it, before BrokerRetry repeats it.
constexpr std::chrono::seconds kTransactionCall(5);

// A producer with options.transactional_id, prepared for these topics. It fences the one before it,
// and what that one had not committed is aborted. Waits for a broker. Errors: those of
// KafkaProducer's Create, InitTransactions and Prepare, and of the retry.
StatusOr<std::unique_ptr<KafkaProducer>> OpenTransactional(const KafkaOptions& kafka,
                                                           const ProducerOptions& options,
                                                           const std::vector<std::string>& topics,
                                                           const BrokerRetry& broker_retry);

// Calls `send`, which sends a record by `producer` in a transaction, until there was room in the
// producer's queue. Returns why, when the transaction has failed; Cancelled when the retry is
// stopped while there is no room; other errors of `send`.
template <typename Send>
Status SendWhenThereIsRoom(KafkaProducer& producer, const BrokerRetry& broker_retry,
                           const Send& send) {
  while (true) {
    Status sent = send();
    if (absl::IsAborted(sent)) MILLRACE_RETURN_IF_ERROR(producer.CheckTransaction());
    if (!absl::IsResourceExhausted(sent)) return sent;
    if (broker_retry.stopped()) return absl::CancelledError("stopped while Kafka took no records");
    producer.Poll(kQueueFull);
  }
}

// The status of a transaction's call as it is, but Aborted, too, of a producer that can send
// nothing more: who gets that replaces the producer. Fenced and permanent errors are told as they
// are.
Status AbortedIfReplaceable(const Status& done);

}  // namespace millrace
