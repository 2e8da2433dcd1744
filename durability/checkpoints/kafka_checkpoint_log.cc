#include "durability/checkpoints/kafka_checkpoint_log.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "base/big_endian.h"
#include "base/error_marks.h"
#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kCall = seconds(5);

// While a request is under way, librdkafka's thread spins as long as a record waits that has waited
// for longer than linger.ms, or any record during a Flush. So a request is sent when it is full, or
// with the Flush, and little more than the next one waits.
constexpr double kUntilFullMs = 1000;
constexpr size_t kQueueKbytes = 2048;

}  // namespace

KafkaCheckpointLog::KafkaCheckpointLog(const JobConfig& config, ShardId shard,
                                       const std::atomic<bool>& stop)
    : parameters_(TopicName(config, Topic::kParameters)),
      dead_letters_(TopicName(config.name(), Topic::kDeadLetter)),
      gradients_(TopicName(config, Topic::kGradients)),
      shard_(shard),
      stop_(stop),
      broker_retry_(stop, 0) {}

StatusOr<std::unique_ptr<KafkaCheckpointLog>> KafkaCheckpointLog::Create(
    const JobConfig& config, ShardId shard, const std::atomic<bool>& stop) {
  std::unique_ptr<KafkaCheckpointLog> log(new KafkaCheckpointLog(config, shard, stop));
  const KafkaOptions kafka = ToKafkaOptions(config);
  ProducerOptions options;
  options.client_id = "checkpoint-" + std::to_string(shard);
  options.linger_ms = kUntilFullMs;
  options.queue_kbytes = kQueueKbytes;
  options.transactional_id = LayoutName(config) + "-shard-" + std::to_string(shard);
  MILLRACE_ASSIGN_OR_RETURN(log->producer_, KafkaProducer::Create(kafka, options, nullptr));
  MILLRACE_ASSIGN_OR_RETURN(log->admin_, KafkaAdmin::Create(kafka, options.client_id));
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  MILLRACE_RETURN_IF_ERROR(
      broker_retry.Run([&log] { return log->producer_->InitTransactions(kCall); }));
  MILLRACE_RETURN_IF_ERROR(broker_retry.Run([&log] {
    return log->producer_->Prepare({log->parameters_, log->dead_letters_});
  }));
  return log;
}

Status KafkaCheckpointLog::Send(const std::string& topic, int32_t partition, std::string_view key,
                                std::string_view value) {
  while (true) {
    Status status = producer_->Send(topic, partition, key, value);
    if (!absl::IsResourceExhausted(status)) return status;
    // Who is stopped still writes what it has, but does not wait for a broker that is away.
    if (stop_) MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([this] { return TryToDeliver(); }));
    producer_->Poll(kQueueFull);
  }
}

Status KafkaCheckpointLog::TryToDeliver() {
  Status flushed = producer_->Flush(kCall);
  if (IsAway(flushed)) {
    Status failed = producer_->CheckTransaction();
    return failed.ok() ? flushed : failed;
  }
  MILLRACE_RETURN_IF_ERROR(flushed);
  const std::vector<FailedDelivery> failures = producer_->TakeFailures();
  // Records of a transaction that has failed are thrown away without a failure of their own.
  if (failures.empty()) return producer_->CheckTransaction();
  const FailedDelivery& first = failures.front();
  Status failed = absl::AbortedError(first.topic + ": " + first.reason);
  return first.is_permanent ? MarkPermanent(std::move(failed)) : failed;
}

Status KafkaCheckpointLog::Begin() {
  producer_->TakeFailures();  // of one that was aborted
  return producer_->BeginTransaction();
}

Status KafkaCheckpointLog::Append(std::string_view key, std::string_view value) {
  Status sent = Send(parameters_, static_cast<int32_t>(shard_), key, value);
  // It says that the transaction has failed, and not why.
  if (absl::IsAborted(sent)) MILLRACE_RETURN_IF_ERROR(producer_->CheckTransaction());
  return sent;
}

Status KafkaCheckpointLog::AppendDeadLetter(std::string_view letter) {
  return Send(dead_letters_, 0, EncodeBigEndian32(shard_), letter);
}

StatusOr<Offset> KafkaCheckpointLog::AwaitDelivery() {
  MILLRACE_RETURN_IF_ERROR(TryToDeliver());
  return producer_->DeliveredEnd(parameters_, static_cast<int32_t>(shard_));
}

Status KafkaCheckpointLog::Commit() { return producer_->CommitTransaction(kCall); }

Status KafkaCheckpointLog::Abort() { return producer_->AbortTransaction(kCall); }

StatusOr<Offset> KafkaCheckpointLog::CommitTransaction(const Checkpoint& checkpoint,
                                                       Offset previous_end) {
  if (transaction_.is_open()) {
    return absl::CancelledError(
        "stopped before Kafka confirmed the last checkpoint; the next start reads whether it was "
        "committed");
  }
  StatusOr<Offset> end =
      broker_retry_.Run([&] { return transaction_.Commit(checkpoint, previous_end); });
  const bool is_told = end.ok() || absl::IsAborted(end.status()) ||
                       absl::IsCancelled(end.status()) || IsFenced(end.status()) ||
                       IsPermanent(end.status());
  if (is_told) return end;
  // Kafka says of a deleted topic that the transaction's state is invalid.
  constexpr seconds kPatience(10);
  MILLRACE_RETURN_IF_ERROR(producer_->CheckTopics(kPatience));
  return end;
}

Status KafkaCheckpointLog::TrimGradients(Offset position) {
  // Not done now is done with the next checkpoint: it only frees space.
  (void)admin_->DeleteRecordsBefore(gradients_, static_cast<int32_t>(shard_), position, kCall);
  return absl::OkStatus();
}

}  // namespace millrace
