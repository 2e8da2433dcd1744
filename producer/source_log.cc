#include "producer/source_log.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "producer/partition_tails.h"
#include "producer/source_positions.h"
#include "topics/row_codec.h"
#include "topics/row_origin.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::seconds;

constexpr seconds kCall(5);
// Records wait in the queue until the commit flushes them.
constexpr double kUntilFullMs = 20;

}  // namespace

SourceLog::SourceLog(const JobConfig& config, const std::atomic<bool>& stop)
    : kafka_(ToKafkaOptions(config)),
      transactional_id_(config.name() + "-source"),
      job_(TopicName(config.name(), Topic::kJob)),
      input_data_(TopicName(config.name(), Topic::kInputData)),
      dead_letters_(TopicName(config.name(), Topic::kDeadLetter)),
      stop_(stop),
      broker_retry_(stop, config.broker_timeout_s()) {}

StatusOr<std::unique_ptr<SourceLog>> SourceLog::Create(const JobConfig& config,
                                                       const std::atomic<bool>& stop) {
  std::unique_ptr<SourceLog> log(new SourceLog(config, stop));
  MILLRACE_RETURN_IF_ERROR(log->Open());
  return log;
}

Status SourceLog::Open() {
  ProducerOptions options;
  options.client_id = "topic-source";
  options.linger_ms = kUntilFullMs;
  options.compress = true;
  options.transactional_id = transactional_id_;
  MILLRACE_ASSIGN_OR_RETURN(producer_, KafkaProducer::Create(kafka_, options, nullptr));
  MILLRACE_RETURN_IF_ERROR(
      broker_retry_.Run([this] { return producer_->InitTransactions(kCall); }));
  return broker_retry_.Run([this] {
    return producer_->Prepare({input_data_, dead_letters_, job_});
  });
}

// ---- what is there ----

StatusOr<SourceLog::Found> SourceLog::Find(const std::string& topic, const RowShape& shape,
                                           const Dealing& dealing) {
  TailReading reading;
  reading.topic = input_data_;
  reading.partitions = dealing.workers;
  reading.shape = shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<PartitionTail> tails,
                            broker_retry_.Run([&] { return ReadTails(kafka_, reading, stop_); }));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<SourceState> of_job,
                            broker_retry_.Run([this] { return ReadJobState(); }));
  Found found;
  MILLRACE_ASSIGN_OR_RETURN(found.state, NewestState(tails, of_job, topic, dealing, input_data_));
  found.ended =
      std::all_of(tails.begin(), tails.end(), [](const PartitionTail& tail) { return tail.ended; });
  return found;
}

StatusOr<std::optional<SourceState>> SourceLog::ReadJobState() {
  ConsumerOptions options;
  options.client_id = "topic-source-resume";
  options.read_committed = true;
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(const auto consumer,
                            PartitionConsumer::Create(kafka_, options, job_, &wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, consumer->QueryRange(0, kCall));
  std::optional<SourceState> newest;
  bool at_end = false;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) -> Status {
    if (record.key != kSourceStateKey) return absl::OkStatus();
    const StatusOr<std::optional<SourceState>> state = DecodeSourceState(record.value);
    if (!state.ok() || !*state) {
      return absl::DataLossError(absl::StrCat(
          job_, ", offset ", int64_t{record.offset},
          ": no state of TopicSource, as its key says; another program may write to this topic. "
          "Start a new job (another --job)"));
    }
    if (!newest || newest->number() < (*state)->number()) newest = **state;
    return absl::OkStatus();
  };
  handler.on_end = [&](int32_t, Offset) { at_end = true; };
  handler.on_out_of_range = [&](int32_t) {
    return absl::UnavailableError(
        absl::StrCat(job_, ": records were deleted while they were read"));
  };
  MILLRACE_RETURN_IF_ERROR(consumer->Assign(0, range.begin));
  while (!at_end) {
    if (stop_) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer->Poll(1000, handler));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return newest;
}

// ---- transactions ----

Status SourceLog::Send(const std::string& topic, int32_t partition, std::string_view key,
                       std::string_view value) {
  while (true) {
    Status sent = producer_->Send(topic, partition, key, value);
    if (absl::IsAborted(sent)) MILLRACE_RETURN_IF_ERROR(producer_->CheckTransaction());
    if (!absl::IsResourceExhausted(sent)) return sent;
    if (stop_) return absl::CancelledError("stopped while Kafka took no records");
    producer_->Poll(kQueueFull);
  }
}

Status SourceLog::WriteAll(const SourceBatch::Transaction& transaction) {
  producer_->TakeFailures();
  MILLRACE_RETURN_IF_ERROR(producer_->BeginTransaction());
  for (const SourceBatch::InputDataRecord& record : transaction.rows) {
    MILLRACE_RETURN_IF_ERROR(Send(input_data_, static_cast<int32_t>(record.worker),
                                  EncodeInputKey(record.key), record.value));
  }
  for (const std::string& letter : transaction.letters) {
    MILLRACE_RETURN_IF_ERROR(Send(dead_letters_, 0, "source", letter));
  }
  if (transaction.state) {
    MILLRACE_RETURN_IF_ERROR(Send(job_, 0, kSourceStateKey, *transaction.state));
  }
  return broker_retry_.Run([this] { return producer_->CommitTransaction(kCall); });
}

Status SourceLog::Write(const SourceBatch::Transaction& transaction) {
  Status written = WriteAll(transaction);
  if (written.ok() || IsFenced(written) || IsPermanent(written)) return written;
  // A client that can send nothing more is replaced, too.
  if (absl::IsFailedPrecondition(written)) return absl::AbortedError(written.message());
  return written;
}

}  // namespace millrace
