#include "server/counted_report.h"

#include <spdlog/spdlog.h>

#include <string_view>

#include "job/kafka_options.h"
#include "messages/master.pb.h"
#include "topics/control_codec.h"
#include "topics/master_topics.h"
#include "topics/most_workers.h"

namespace millrace {

CountedReport::CountedReport(const JobConfig& config, const BrokerRetry& broker_retry)
    : config_(config),
      broker_retry_(broker_retry),
      topic_(MasterTopicName(config.name(), MasterTopic::kControl)),
      counted_(MostWorkers(config.training(), config.workers())) {}

StatusOr<std::unique_ptr<CountedReport>> CountedReport::Create(const JobConfig& config,
                                                               const BrokerRetry& broker_retry) {
  std::unique_ptr<CountedReport> report(new CountedReport(config, broker_retry));
  MILLRACE_RETURN_IF_ERROR(report->Connect());
  return report;
}

Status CountedReport::Connect() {
  ProducerOptions options;
  options.client_id = "server-counted";
  MILLRACE_ASSIGN_OR_RETURN(producer_,
                            KafkaProducer::Create(ToKafkaOptions(config_), options, nullptr));
  return broker_retry_.Run([&] { return producer_->Prepare({topic_}); });
}

Status CountedReport::Tick(const ShardTask& shard, std::chrono::steady_clock::time_point now) {
  producer_->Poll(std::chrono::milliseconds(0));
  for (const FailedDelivery& failure : producer_->TakeFailures()) NotDelivered(failure.reason, now);
  if (!shard.replayed() || !backoff_.Ready(now)) return absl::OkStatus();
  const std::optional<LeaseCommand> command = counted_.Take(shard.processor(), now);
  if (!command) return absl::OkStatus();
  Status sent = Send(*command);
  if (sent.ok()) return absl::OkStatus();
  counted_.SayAgain();
  if (absl::IsResourceExhausted(sent)) return absl::OkStatus();  // its queue is full: no broker
  if (absl::IsPermissionDenied(sent)) {
    // After a delivery that failed so, the client refuses others until it has asked the broker
    // again.
    NotDelivered(TextOf(sent), now);
    return absl::OkStatus();
  }
  if (!absl::IsFailedPrecondition(sent)) return sent;
  spdlog::warn("{}: the Kafka producer failed permanently ({}); a new one is created", topic_,
               TextOf(sent));
  return Connect();
}

void CountedReport::NotDelivered(std::string_view reason,
                                 std::chrono::steady_clock::time_point now) {
  counted_.SayAgain();
  if (!backoff_.Ready(now)) return;
  backoff_.Failed(now);
  spdlog::warn(
      "{}: the report of the rows that shard 0 has counted was not delivered: {}. It is sent "
      "again; "
      "workers get no further rows until it is there",
      topic_, reason);
}

Status CountedReport::TellLast(const ShardTask& shard, std::chrono::steady_clock::time_point now) {
  MILLRACE_RETURN_IF_ERROR(Tick(shard, now + CountedRows::kEvery));
  // The master needs it only to show it.
  (void)producer_->Flush(std::chrono::seconds(2));
  return absl::OkStatus();
}

Status CountedReport::Send(const LeaseCommand& command) {
  ControlRecord record;
  record.set_epoch(config_.epoch());
  *record.mutable_lease() = command;
  return producer_->Send(topic_, 0, std::string_view(), EncodeControl(record));
}

}  // namespace millrace
