#include "job/plan_follower.h"

#include <chrono>

#include "kafka/overdue_end.h"
#include "topics/master_topics.h"
#include "topics/plan_codec.h"

namespace millrace {
namespace {

constexpr size_t kPlanRecordsAtOnce = 1000;
// Records end the wait at once.
constexpr std::chrono::milliseconds kPlanWait(500);

}  // namespace

StatusOr<std::unique_ptr<PlanFollower>> PlanFollower::Create(const KafkaOptions& kafka,
                                                             const std::string& job,
                                                             bool wants_leases, Wakeup* wakeup) {
  std::unique_ptr<PlanFollower> follower(
      new PlanFollower(MasterTopicName(job, MasterTopic::kPlan), wants_leases));
  ConsumerOptions options;
  options.client_id = "plan";
  options.fetch_wait = kPlanWait;
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(follower->consumer_,
                            PartitionConsumer::Create(kafka, options, follower->topic_, wakeup));
  return follower;
}

Status PlanFollower::Begin(std::chrono::milliseconds timeout) {
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, consumer_->QueryRange(0, timeout));
  end_.Know(range.end);
  return consumer_->Assign(0, range.begin);
}

StatusOr<bool> PlanFollower::Poll() {
  const bool was_read = end_.is_reached();
  bool has_changed = false;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    hosts_.Take(record.key, record.value);
    if (wants_leases_) leases_.Take(record.key, record.value);
    has_changed |= record.key.starts_with(kPlanProcessKey);
    return absl::OkStatus();
  };
  TellEnd(end_, handler);
  handler.on_out_of_range = [this](int32_t) {
    return absl::UnavailableError(topic_ + ": records were deleted while they were read");
  };
  MILLRACE_RETURN_IF_ERROR(consumer_->Poll(kPlanRecordsAtOnce, handler).status());
  MILLRACE_RETURN_IF_ERROR(CheckOverdueEnd(end_, *consumer_, topic_, 0));
  return end_.is_reached() && (has_changed || !was_read);
}

}  // namespace millrace
