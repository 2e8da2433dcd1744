#include "producer/kafka_row_sender.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/big_endian.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

// Delivery reports are taken by the hundred: a poll per row would cost as much as the row.
constexpr uint32_t kSendsPerPoll = 256;

}  // namespace

StatusOr<std::unique_ptr<KafkaRowSender>> KafkaRowSender::Create(const KafkaOptions& kafka,
                                                                 std::string topic,
                                                                 const Options& row_options) {
  ProducerOptions options;
  options.client_id = "csv-producer";
  options.linger_ms = row_options.paced ? 5 : 20;
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

Status KafkaRowSender::SendRow(RowPlace place, std::string_view value) {
  return Send(place.worker, place.row, value);
}

Status KafkaRowSender::SendEnd(WorkerId worker, RowNumber row_count) {
  return Send(worker, row_count, EncodeEnd(row_count));
}

Status KafkaRowSender::Send(WorkerId worker, RowNumber key, std::string_view value) {
  const Status sent =
      producer_->Send(topic_, static_cast<int32_t>(worker), EncodeBigEndian64(key), value);
  if (absl::IsFailedPrecondition(sent)) return absl::AbortedError(sent.message());
  MILLRACE_RETURN_IF_ERROR(sent);
  if (++since_poll_ < kSendsPerPoll) return absl::OkStatus();
  return Wait(std::chrono::milliseconds(0));
}

Status KafkaRowSender::Wait(std::chrono::milliseconds timeout) {
  since_poll_ = 0;
  producer_->Poll(timeout);
  const std::vector<FailedDelivery> failures = producer_->TakeFailures();
  if (failures.empty()) return absl::OkStatus();
  const FailedDelivery& first = failures.front();
  return absl::AbortedError(absl::StrCat(failures.size(),
                                         " records were not accepted by Kafka, the first by ",
                                         first.topic, " [", first.partition, "]: ", first.reason));
}

}  // namespace millrace
