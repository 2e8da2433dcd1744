#include "producer/kafka_row_sender.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// Delivery reports are taken by the dozen: a poll for each would cost as much as a small record.
constexpr uint32_t kSendsPerPoll = 32;

}  // namespace

StatusOr<std::unique_ptr<KafkaRowSender>> KafkaRowSender::Create(const KafkaOptions& kafka,
                                                                 std::string topic,
                                                                 const Options& row_options) {
  ProducerOptions options;
  options.client_id = "csv-producer";
  // Rows have waited for each other already (RowBatches).
  options.linger_ms = row_options.paced ? 0 : 20;
  options.one_request_at_a_time = !row_options.can_be_replaced;
  options.compress = true;
  // Workers rely on row numbers without gaps, so when a batch fails for good nothing may follow it.
  options.gapless = true;
  // librdkafka warns that this is an experiment; what else there is to warn of, the client of
  // ProgressPublisher tells, which has the same settings.
  KafkaOptions quiet = kafka;
  quiet.settings.insert(quiet.settings.begin(), {"log_level", "3"});
  MILLRACE_ASSIGN_OR_RETURN(auto producer, KafkaProducer::Create(quiet, options, nullptr));
  return std::unique_ptr<KafkaRowSender>(new KafkaRowSender(std::move(producer), std::move(topic)));
}

KafkaRowSender::First& KafkaRowSender::FirstOf(WorkerId worker) {
  const size_t index = uint32_t{worker};
  if (index >= firsts_.size()) firsts_.resize(index + 1, First::kUnsent);
  return firsts_[index];
}

// A partition's first record is confirmed before another one follows. A broker knows nothing of
// this client before it: if it refuses the first request, as it does while it does not lead a new
// partition yet, it takes the next one in its place, and the rows of the first never come.
Status KafkaRowSender::Send(WorkerId worker, const InputKey& key, std::string& value) {
  First& first = FirstOf(worker);
  if (first == First::kSent) {
    if (producer_->DeliveredEnd(topic_, static_cast<int32_t>(worker)) < 0) {
      return absl::ResourceExhaustedError("the partition's first record is not confirmed yet");
    }
    first = First::kConfirmed;
  }
  const Status sent =
      producer_->SendOwned(topic_, static_cast<int32_t>(worker), EncodeInputKey(key), value);
  if (absl::IsFailedPrecondition(sent)) return absl::AbortedError(sent.message());
  MILLRACE_RETURN_IF_ERROR(sent);
  if (first == First::kUnsent) first = First::kSent;
  newest_.push_back(key.count);
  newest_rows_ += key.count;
  if (++since_poll_ < kSendsPerPoll) return absl::OkStatus();
  return Wait(std::chrono::milliseconds(0));
}

uint64_t KafkaRowSender::rows_outstanding() {
  while (newest_.size() > outstanding()) {
    newest_rows_ -= newest_.front();
    newest_.pop_front();
  }
  return newest_rows_;
}

Status KafkaRowSender::Wait(std::chrono::milliseconds timeout) {
  since_poll_ = 0;
  producer_->Poll(timeout);
  (void)rows_outstanding();  // forgets the records that were confirmed
  const std::vector<FailedDelivery> failures = producer_->TakeFailures();
  if (failures.empty()) return absl::OkStatus();
  const FailedDelivery& first = failures.front();
  return absl::AbortedError(absl::StrCat(failures.size(),
                                         " records were not accepted by Kafka, the first by ",
                                         first.topic, " [", first.partition, "]: ", first.reason));
}

}  // namespace millrace
