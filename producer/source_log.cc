#include "producer/source_log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "kafka/read_partition.h"
#include "kafka/transactions.h"
#include "producer/partition_tails.h"
#include "producer/source_positions.h"
#include "topics/row_codec.h"
#include "topics/row_origin.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// Records wait in the queue until the commit flushes them.
constexpr double kUntilFullMs = 20;

}  // namespace

SourceLog::SourceLog(const JobConfig& config, const std::atomic<bool>& stop, Warn warn)
    : kafka_(ToKafkaOptions(config)),
      transactional_id_(config.name() + "-source"),
      job_(TopicName(config.name(), Topic::kJob)),
      input_data_(TopicName(config.name(), Topic::kInputData)),
      dead_letters_(TopicName(config.name(), Topic::kDeadLetter)),
      stop_(stop),
      broker_retry_(stop, config.broker_timeout_s()),
      outcome_wait_(broker_retry_, {.topic = input_data_,
                                    .program = "TopicSource",
                                    .timeout_s = config.broker_timeout_s(),
                                    .warn = std::move(warn)}) {}

StatusOr<std::unique_ptr<SourceLog>> SourceLog::Create(const JobConfig& config,
                                                       const std::atomic<bool>& stop, Warn warn) {
  std::unique_ptr<SourceLog> log(new SourceLog(config, stop, std::move(warn)));
  MILLRACE_RETURN_IF_ERROR(log->Open());
  return log;
}

Status SourceLog::Open() {
  ProducerOptions options;
  options.client_id = "topic-source";
  options.linger_ms = kUntilFullMs;
  options.compress = true;
  options.transactional_id = transactional_id_;
  const std::vector<std::string> topics = {input_data_, dead_letters_, job_};
  MILLRACE_ASSIGN_OR_RETURN(producer_, OpenTransactional(kafka_, options, topics, broker_retry_));
  return absl::OkStatus();
}

// ---- what is there ----

StatusOr<SourceLog::Found> SourceLog::Find(const std::string& topic, const RowShape& shape,
                                           const Dealing& dealing, uint32_t workers) {
  TailReading reading;
  reading.topic = input_data_;
  reading.partitions = workers;
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
  std::optional<SourceState> newest;
  const auto take = [&](const ConsumedRecord& record) -> Status {
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
  MILLRACE_RETURN_IF_ERROR(ReadPartition(kafka_, "topic-source-resume", job_, 0, stop_, take));
  return newest;
}

// ---- transactions ----

Status SourceLog::Send(const std::string& topic, int32_t partition, std::string_view key,
                       std::string_view value) {
  return SendWhenThereIsRoom(*producer_, broker_retry_,
                             [&] { return producer_->Send(topic, partition, key, value); });
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
  return outcome_wait_.Run([this] { return producer_->CommitTransaction(kTransactionCall); });
}

Status SourceLog::Write(const SourceBatch::Transaction& transaction) {
  const Status done = WriteAll(transaction);
  if (!IsFenced(done)) return AbortedIfReplaceable(done);
  return WithText(
      done, absl::StrCat(
                "another TopicSource of this job has taken over (both have the transactional id ",
                transactional_id_,
                "), or a transaction took longer than transaction.timeout.ms; this one ends. No "
                "row is lost or doubled: who writes now goes on after the last row that Kafka "
                "has. Leave the job to it, or give this one another --job; if no other one runs, "
                "start this one again. Kafka's reason: ",
                done.message()));
}

}  // namespace millrace
