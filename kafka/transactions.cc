#include "kafka/transactions.h"

#include <utility>

#include "base/error_marks.h"

namespace millrace {

StatusOr<std::unique_ptr<KafkaProducer>> OpenTransactional(const KafkaOptions& kafka,
                                                           const ProducerOptions& options,
                                                           const std::vector<std::string>& topics,
                                                           const BrokerRetry& broker_retry) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KafkaProducer> producer,
                            KafkaProducer::Create(kafka, options, nullptr));
  MILLRACE_RETURN_IF_ERROR(
      broker_retry.Run([&] { return producer->InitTransactions(kTransactionCall); }));
  MILLRACE_RETURN_IF_ERROR(broker_retry.Run([&] { return producer->Prepare(topics); }));
  return producer;
}

Status AbortedIfReplaceable(const Status& done) {
  const bool is_told = !absl::IsFailedPrecondition(done) || IsFenced(done) || IsPermanent(done);
  return is_told ? done : absl::AbortedError(done.message());
}

}  // namespace millrace
