#include "predictor/topic_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "kafka/group_offsets.h"
#include "kafka/transactions.h"

namespace millrace {
namespace {

// Records wait in the queue until the commit flushes them.
constexpr double kUntilFullMs = 20;

std::string_view BytesOf(const std::optional<std::string>& bytes) {
  return bytes ? std::string_view(*bytes) : std::string_view();
}

}  // namespace

TopicWriter::TopicWriter(Options options, const std::atomic<bool>& stop)
    : options_(std::move(options)),
      broker_retry_(stop, options_.kafka.broker_timeout_s),
      outcome_wait_(broker_retry_, {.topic = options_.outputs.front(),
                                    .program = "Predictor",
                                    .timeout_s = options_.kafka.broker_timeout_s,
                                    .warn = options_.warn}) {}

StatusOr<std::unique_ptr<TopicWriter>> TopicWriter::Create(Options options,
                                                           const std::atomic<bool>& stop) {
  std::unique_ptr<TopicWriter> writer(new TopicWriter(std::move(options), stop));
  MILLRACE_RETURN_IF_ERROR(writer->Open());
  return writer;
}

Status TopicWriter::Open() {
  ProducerOptions options;
  options.client_id = "predictor-writer";
  options.linger_ms = kUntilFullMs;
  options.compress = true;
  options.transactional_id = options_.group;
  StatusOr<std::unique_ptr<KafkaProducer>> producer =
      OpenTransactional(options_.kafka, options, options_.outputs, broker_retry_);
  if (absl::IsNotFound(producer.status())) return OfDeletedTopic(producer.status());
  if (!producer.ok()) return producer.status();
  producer_ = *std::move(producer);
  return absl::OkStatus();
}

StatusOr<std::vector<std::optional<Offset>>> TopicWriter::Positions(int32_t partitions) {
  return broker_retry_.Run([&] {
    return CommittedOffsets(options_.kafka, options_.group, options_.input, partitions,
                            kTransactionCall);
  });
}

Status TopicWriter::Begin() {
  if (std::exchange(has_begun_, true)) return absl::OkStatus();
  producer_->TakeFailures();
  sent_.clear();
  return producer_->BeginTransaction();
}

Status TopicWriter::SendOnce(const std::string& topic, int32_t partition,
                             const RecordScorer::Scored& record) {
  headers_.clear();
  for (const RecordScorer::Header& header : record.headers) {
    headers_.push_back({header.name, BytesOf(header.value)});
  }
  const uint64_t tag = sent_.size();
  sent_.push_back({record.partition, record.offset, record.timestamp_ms, record.key.has_value(),
                   record.bytes()});
  return SendWhenThereIsRoom(*producer_, broker_retry_, [&] {
    return producer_->SendWithHeaders(topic, partition, BytesOf(record.key), BytesOf(record.value),
                                      std::max<int64_t>(record.timestamp_ms, 0), headers_, tag);
  });
}

Status TopicWriter::Send(const std::string& topic, int32_t partition,
                         const RecordScorer::Scored& record) {
  MILLRACE_RETURN_IF_ERROR(Judge(Begin()));
  const Status sent = SendOnce(topic, partition, record);
  if (!absl::IsNotFound(sent)) return Judge(sent);
  return absl::NotFoundError(absl::StrCat(
      topic, " [", partition,
      "] is not there any more: the topic was deleted, or made again with fewer partitions. Make "
      "it again, and start Predictor again"));
}

Status TopicWriter::Commit(const std::map<int32_t, Offset>& positions) {
  MILLRACE_RETURN_IF_ERROR(Judge(Begin()));
  const Status sent = AskForOutcome([&] {
    return producer_->SendOffsets(options_.group, options_.input, positions, kTransactionCall);
  });
  MILLRACE_RETURN_IF_ERROR(Judge(sent));
  has_begun_ = false;
  return Judge(AskForOutcome([this] { return producer_->CommitTransaction(kTransactionCall); }));
}

// Records for a topic that was deleted are never delivered, and Kafka's client waits for it.
Status TopicWriter::AskForOutcome(const std::function<Status()>& call) {
  return outcome_wait_.Run([&]() -> Status {
    Status done = call();
    if (!IsAway(done)) return done;
    MILLRACE_RETURN_IF_ERROR(producer_->CheckTopics(std::chrono::milliseconds(0)));
    return done;
  });
}

Status TopicWriter::Abort(bool waits) {
  const auto abort = [this] { return producer_->AbortTransaction(kTransactionCall); };
  return Judge(waits ? outcome_wait_.Run(abort) : abort());
}

// The broker's reason, with what it was refused for.
Status TopicWriter::OfRefusal(const Status& done) {
  constexpr std::chrono::milliseconds kReportsTake(100);  // they follow the error of a transaction
  constexpr int kMostPolls = 20;
  std::vector<FailedDelivery> failures = producer_->TakeFailures();
  for (int i = 0; i < kMostPolls && failures.empty(); ++i) {
    producer_->Poll(kReportsTake);
    failures = producer_->TakeFailures();
  }
  RefusedRecords batch = {.input = options_.input};
  for (const FailedDelivery& failure : failures) {
    if (failure.refused == Refused::kNothing) continue;
    if (batch.records.empty()) {
      batch.output = failure.topic;
      batch.reason = failure.reason;
      batch.refused = failure.refused;
    }
    const bool is_alike = failure.topic == batch.output && failure.refused == batch.refused;
    if (is_alike && failure.tag < sent_.size()) batch.records.push_back(sent_[failure.tag]);
  }
  return batch.records.empty() ? done : WithText(done, RefusalText(batch));
}

// Kafka's client speaks of the topics of a job.
Status TopicWriter::OfDeletedTopic(const Status& done) const {
  for (const std::string& topic : options_.outputs) {
    if (TextOf(done).find(absl::StrCat("'", topic, "'")) == std::string_view::npos) continue;
    return WithText(done, absl::StrCat("the output topic '", topic,
                                       "' is gone: it was deleted while Predictor ran. Make it "
                                       "again, and start Predictor again: it continues after the "
                                       "last record whose prediction was committed"));
  }
  return done;
}

Status TopicWriter::Judge(const Status& done) {
  if (absl::IsNotFound(done)) return OfDeletedTopic(done);
  if (IsPermanent(done)) return OfRefusal(done);
  if (IsFenced(done)) {
    return WithText(done, absl::StrCat("another Predictor of the group '", options_.group,
                                       "' has taken over; give one of them another --group, "
                                       "output or input if both are to run"));
  }
  return AbortedIfReplaceable(done);
}

}  // namespace millrace
