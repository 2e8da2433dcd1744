#include "job/record_sender.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "job/kafka_options.h"
#include "job/warning_line.h"
#include "kafka/timeouts.h"

namespace millrace {
namespace {

constexpr int kMostReplaced = 100;

}  // namespace

RecordSender::RecordSender(const JobConfig& config, std::string client_id,
                           const std::vector<Topic>& topics, const BrokerRetry& broker_retry,
                           Wakeup* wakeup)
    : config_(config), broker_retry_(broker_retry), wakeup_(wakeup) {
  options_.client_id = std::move(client_id);
  for (Topic topic : topics) {
    std::string& name = names_[static_cast<size_t>(topic)];
    name = TopicName(config, topic);
    prepared_.push_back(name);
  }
}

StatusOr<std::unique_ptr<RecordSender>> RecordSender::Create(const JobConfig& config,
                                                             std::string client_id,
                                                             const std::vector<Topic>& topics,
                                                             const BrokerRetry& broker_retry,
                                                             Wakeup* wakeup) {
  std::unique_ptr<RecordSender> sender(
      new RecordSender(config, std::move(client_id), topics, broker_retry, wakeup));
  MILLRACE_RETURN_IF_ERROR(sender->Connect());
  return sender;
}

Status RecordSender::Connect() {
  MILLRACE_ASSIGN_OR_RETURN(producer_,
                            KafkaProducer::Create(ToKafkaOptions(config_), options_, wakeup_));
  return broker_retry_.Run([&] { return producer_->Prepare(prepared_); });
}

Status RecordSender::Send(std::vector<OutgoingRecord>& records) {
  for (OutgoingRecord& record : records) MILLRACE_RETURN_IF_ERROR(SendOne(std::move(record)));
  records.clear();
  return absl::OkStatus();
}

Status RecordSender::SendOne(OutgoingRecord record) {
  const std::string& topic = names_[static_cast<size_t>(record.topic)];
  while (true) {
    Status status = producer_->SendOwned(topic, record.partition, record.key, record.value);
    if (absl::IsResourceExhausted(status)) {
      // What is not sent now is announced again at the next start.
      if (broker_retry_.stopped()) {
        return absl::CancelledError("stopped while the queue of records to send was full");
      }
      producer_->Poll(kQueueFull);
    } else if (absl::IsFailedPrecondition(status) && replaced_ < kMostReplaced) {
      ++replaced_;
      lost_ = true;
      WarnInALine(absl::StrFormat(
          "%s: the Kafka producer failed permanently (%s); a new one was created, and what is "
          "unanswered is sent again",
          options_.client_id, TextOf(status)));
      MILLRACE_RETURN_IF_ERROR(Connect());
    } else {
      return status;
    }
  }
}

bool RecordSender::DeliveryFailed() {
  producer_->Poll(std::chrono::milliseconds(0));
  const auto now = std::chrono::steady_clock::now();
  for (const FailedDelivery& failure : producer_->TakeFailures()) {
    ++failed_;
    why_ = failure.topic + ": " + failure.reason;
  }
  if (failed_ == 0 && !lost_) return false;
  if (!backoff_.Ready(now)) return false;
  if (failed_ > 0) {
    backoff_.Failed(now);
    const std::chrono::duration<double> wait = backoff_.wait();
    WarnInALine(absl::StrFormat(
        "%s: %d records were not delivered: %s. What is still needed is sent again; if that fails, "
        "too, the next attempt is in %.1f s",
        options_.client_id, failed_, why_, wait.count()));
  }
  failed_ = 0;
  lost_ = false;
  return true;
}

}  // namespace millrace
