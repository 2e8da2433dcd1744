#include "master/master_log.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "job/ensure_topics.h"
#include "job/kafka_options.h"
#include "kafka/overdue_end.h"
#include "kafka/timeouts.h"
#include "kafka/transactions.h"
#include "topics/master_topics.h"

namespace millrace {
namespace {

constexpr size_t kControlRecordsAtOnce = 1000;

}  // namespace

Status PrepareMasterTopics(const JobConfig& config, const std::atomic<bool>& stop) {
  std::vector<TopicSettings> topics;
  for (const MasterTopic topic : kMasterTopics) {
    topics.push_back({MasterTopicName(config.name(), topic), 1, MasterTopicConfig(topic)});
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config), "master-topics"));
  return EnsureJobTopics(config, topics, *admin, stop);
}

MasterLog::MasterLog(const JobConfig& config, const std::atomic<bool>& stop, Wakeup* wakeup)
    : kafka_(ToKafkaOptions(config)),
      control_(MasterTopicName(config.name(), MasterTopic::kControl)),
      plan_(MasterTopicName(config.name(), MasterTopic::kPlan)),
      start_retry_(stop, config.broker_timeout_s()),
      write_retry_(never_, config.broker_timeout_s()),
      wakeup_(wakeup) {}

StatusOr<std::unique_ptr<MasterLog>> MasterLog::Create(const JobConfig& config,
                                                       const std::atomic<bool>& stop,
                                                       Wakeup* wakeup) {
  std::unique_ptr<MasterLog> log(new MasterLog(config, stop, wakeup));
  MILLRACE_RETURN_IF_ERROR(log->Open(config.name() + ".master"));
  return log;
}

Status MasterLog::Open(const std::string& transactional_id) {
  MILLRACE_ASSIGN_OR_RETURN(admin_, KafkaAdmin::Create(kafka_, "master-admin"));
  ProducerOptions options;
  options.client_id = "master";
  options.transactional_id = transactional_id;
  MILLRACE_ASSIGN_OR_RETURN(producer_,
                            OpenTransactional(kafka_, options, {control_, plan_}, start_retry_));
  return absl::OkStatus();
}

// ---- control ----

Status MasterLog::Follow(Offset next) {
  ConsumerOptions options;
  options.client_id = "master-control";
  options.read_committed = true;
  options.fetch_wait = kFetchWait;
  MILLRACE_ASSIGN_OR_RETURN(consumer_,
                            PartitionConsumer::Create(kafka_, options, control_, wakeup_));
  // Waits for the partition's leader.
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, start_retry_.Run([this] {
    return consumer_->QueryRange(0, kBrokerCall);
  }));
  end_ = KnownEnd(std::max(next, range.end));
  return consumer_->Assign(0, next);
}

Status MasterLog::Poll(const TakeRecord& take) {
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    take(record.offset, record.value);
    return absl::OkStatus();
  };
  TellEnd(end_, handler);
  handler.on_out_of_range = [this](int32_t) {
    return absl::FailedPreconditionError(absl::StrCat(
        control_,
        " lacks records that the master has not read yet: it was deleted, or somebody "
        "deleted its records. Stop the job's processes, and start a new job (another --job)"));
  };
  MILLRACE_RETURN_IF_ERROR(consumer_->Poll(kControlRecordsAtOnce, handler).status());
  return CheckOverdueEnd(end_, *consumer_, control_, 0);
}

Status MasterLog::DeleteBefore(Offset offset) {
  return admin_->DeleteRecordsBefore(control_, 0, offset, kTransactionCall);
}

// ---- transactions ----

Status MasterLog::Send(const std::string& topic, std::string_view key, std::string_view value) {
  return SendWhenThereIsRoom(*producer_, write_retry_,
                             [&] { return producer_->Send(topic, 0, key, value); });
}

Status MasterLog::WriteAll(const Transaction& transaction) {
  producer_->TakeFailures();
  MILLRACE_RETURN_IF_ERROR(producer_->BeginTransaction());
  for (const auto& [key, value] : transaction.plan) {
    const std::string_view bytes = value ? std::string_view(*value) : std::string_view();
    MILLRACE_RETURN_IF_ERROR(Send(plan_, key, bytes));
  }
  for (const std::string& value : transaction.control) {
    MILLRACE_RETURN_IF_ERROR(Send(control_, std::string_view(), value));
  }
  MILLRACE_RETURN_IF_ERROR(
      write_retry_.Run([this] { return producer_->CommitTransaction(kTransactionCall); }));
  if (transaction.control.empty()) return absl::OkStatus();
  const Offset end = producer_->DeliveredEnd(control_, 0);
  if (end <= written_end_) {
    return absl::AbortedError("no broker has confirmed the offset of a record of " + control_);
  }
  written_end_ = end;
  return absl::OkStatus();
}

Status MasterLog::Write(const Transaction& transaction) {
  return AbortedIfReplaceable(WriteAll(transaction));
}

}  // namespace millrace
