#include "runtime/record_sender.h"

#include <chrono>
#include <utility>

#include "runtime/job_options.h"
#include "runtime/waits.h"

namespace millrace {
StatusOr<std::unique_ptr<RecordSender>> RecordSender::Create(const JobConfig& config,
                                                             std::string client_id,
                                                             const std::vector<Topic>& topics,
                                                             const Patience& patience,
                                                             Wakeup* wakeup) {
  auto sender = std::make_unique<RecordSender>();
  ProducerOptions options;
  options.client_id = std::move(client_id);
  MILLRACE_ASSIGN_OR_RETURN(sender->producer_,
                            KafkaProducer::Create(KafkaOptionsOf(config), options, wakeup));
  std::vector<std::string> names;
  for (Topic topic : topics) {
    std::string& name = sender->names_[static_cast<size_t>(topic)];
    name = TopicName(config.name(), topic);
    names.push_back(name);
  }
  MILLRACE_RETURN_IF_ERROR(patience.Try([&] { return sender->producer_->Prepare(names); }));
  return sender;
}

Status RecordSender::Send(std::vector<OutgoingRecord>& records) {
  for (const OutgoingRecord& record : records) {
    const std::string& topic = names_[static_cast<size_t>(record.topic)];
    while (true) {
      Status status = producer_->Send(topic, record.partition, record.key, record.value);
      if (status.ok()) break;
      if (!absl::IsResourceExhausted(status)) return status;
      producer_->Poll(kQueueFull);
    }
  }
  records.clear();
  return absl::OkStatus();
}

bool RecordSender::DeliveryFailed() {
  producer_->Poll(std::chrono::milliseconds(0));
  return !producer_->TakeFailures().empty();
}

}  // namespace millrace
