#include "python/src/topic_sender.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kafka/admin.h"
#include "topics/names.h"

namespace millrace {
namespace {

constexpr char kClientId[] = "millrace-python";
constexpr std::chrono::milliseconds kPause(100);
constexpr size_t kMostOutstanding = 10'000;

}  // namespace

StatusOr<std::unique_ptr<TopicSender>> TopicSender::Open(Options options) {
  MILLRACE_RETURN_IF_ERROR(CheckTopicName("topic", options.topic));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(options.kafka, kClientId));
  const Status found = admin->WaitForBroker(options.stopped);
  if (absl::IsDeadlineExceeded(found)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "no Kafka broker answered at ", options.kafka.brokers, " for ",
        options.kafka.broker_timeout_s, " s; check the address, or raise the timeout"));
  }
  MILLRACE_RETURN_IF_ERROR(found);
  StatusOr<int32_t> partitions = admin->PartitionCount(options.topic);
  if (absl::IsNotFound(partitions.status())) {
    MILLRACE_RETURN_IF_ERROR(
        admin->EnsureTopics({{.name = options.topic, .partitions = options.partitions}}, -1));
    partitions = options.partitions;
  }
  MILLRACE_RETURN_IF_ERROR(partitions.status());
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<KafkaProducer> producer,
      KafkaProducer::Create(options.kafka, {.client_id = kClientId, .linger_ms = 5}, nullptr));
  MILLRACE_RETURN_IF_ERROR(producer->Prepare({options.topic}));
  return std::unique_ptr<TopicSender>(
      new TopicSender(std::move(options), std::move(producer), *partitions));
}

TopicSender::TopicSender(Options options, std::unique_ptr<KafkaProducer> producer,
                         int32_t partitions)
    : options_(std::move(options)), producer_(producer.release()), partitions_(partitions) {}

Status TopicSender::CheckProcess() const {
  const InItsProcess& process = producer_.get_deleter();
  if (process.IsThisOne()) return absl::OkStatus();
  return absl::FailedPreconditionError(process.Refusal("this writer of rows"));
}

Status TopicSender::Send(std::string_view value) {
  MILLRACE_RETURN_IF_ERROR(CheckProcess());
  if (producer_->outstanding() >= kMostOutstanding) {
    MILLRACE_RETURN_IF_ERROR(WaitForLessThan(kMostOutstanding));
  }
  Status sent = producer_->Send(options_.topic, next_partition_, {}, value);
  if (absl::IsResourceExhausted(sent)) {
    MILLRACE_RETURN_IF_ERROR(WaitForLessThan(kMostOutstanding / 2));
    sent = producer_->Send(options_.topic, next_partition_, {}, value);
  }
  next_partition_ = (next_partition_ + 1) % partitions_;
  return sent;
}

Status TopicSender::Finish() {
  MILLRACE_RETURN_IF_ERROR(CheckProcess());
  return WaitForLessThan(1);
}

Status TopicSender::WaitForLessThan(size_t most) {
  using Seconds = std::chrono::duration<double>;
  auto last = std::chrono::steady_clock::now();
  size_t before = producer_->outstanding();
  while (true) {
    producer_->Poll(before < most ? std::chrono::milliseconds(0) : kPause);
    MILLRACE_RETURN_IF_ERROR(TakeFailures());
    const size_t outstanding = producer_->outstanding();
    if (outstanding < most) return absl::OkStatus();
    if (options_.stopped && options_.stopped()) return absl::CancelledError("stopped");
    const auto now = std::chrono::steady_clock::now();
    if (outstanding < before) last = now;
    before = outstanding;
    if (Seconds(now - last).count() < options_.kafka.broker_timeout_s) continue;
    MILLRACE_RETURN_IF_ERROR(producer_->CheckTopics(std::chrono::milliseconds(0)));
    return absl::DeadlineExceededError(
        absl::StrCat("no Kafka broker at ", options_.kafka.brokers, " confirmed a row for ",
                     options_.kafka.broker_timeout_s, " s; ", outstanding,
                     " rows have no answer, and may be delivered yet"));
  }
}

Status TopicSender::TakeFailures() {
  const std::vector<FailedDelivery> failures = producer_->TakeFailures();
  if (failures.empty()) return absl::OkStatus();
  const FailedDelivery& first = failures.front();
  return absl::InternalError(absl::StrCat(
      failures.size(), " rows were not delivered; the first, to ", first.topic, " partition ",
      first.partition, " at ", options_.kafka.brokers, ": ", first.reason));
}

}  // namespace millrace
