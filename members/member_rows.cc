#include "members/member_rows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/timeouts.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// Rows that may come between two computations, about: a record has one or many.
constexpr size_t kMemberRowsAtOnce = 512;

}  // namespace

MemberRows::MemberRows(const JobConfig& config, MemberTask& task, const BrokerRetry& broker_retry)
    : task_(task),
      broker_retry_(broker_retry),
      topic_(TopicName(config.name(), Topic::kInputData)) {}

StatusOr<std::unique_ptr<MemberRows>> MemberRows::Create(const JobConfig& config, MemberTask& task,
                                                         const BrokerRetry& broker_retry,
                                                         Wakeup* wakeup) {
  std::unique_ptr<MemberRows> rows(new MemberRows(config, task, broker_retry));
  const KafkaOptions kafka = ToKafkaOptions(config);
  ConsumerOptions options;
  options.fetch_wait = kFetchWait;
  options.client_id = "member-input";
  options.group_id = config.name() + "-workers";
  options.joins_group = false;
  options.session_timeout_s = config.worker().session_timeout_s();
  options.stall_timeout_s = config.worker().stall_timeout_s();
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(rows->rows_,
                            GroupConsumer::Create(kafka, options, rows->topic_, wakeup));
  // A client whose connection waits for records answers a question about offsets only after that.
  MILLRACE_ASSIGN_OR_RETURN(rows->ranges_,
                            PartitionConsumer::Create(kafka, {}, rows->topic_, nullptr));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(kafka, "member-trim"));
  rows->trimmer_ = std::make_unique<Trimmer>(std::move(admin));
  rows->SetHandler();
  return rows;
}

void MemberRows::SetHandler() {
  handler_.on_record = [this](const ConsumedRecord& record) -> Status {
    const auto worker = static_cast<WorkerId>(record.partition);
    if (task_.feed(worker) == nullptr) return absl::OkStatus();
    const auto key = DecodeInputKey(record.key);
    rows_taken_ += key ? key->count : 1;
    MILLRACE_RETURN_IF_ERROR(
        task_.TakeRows(worker, {record.offset, record.timestamp_ms, record.key, record.value}));
    HoldOrLetGo(worker);  // records hold many rows: at once, not after the poll
    return absl::OkStatus();
  };
  handler_.on_out_of_range = [this](int32_t partition) {
    deleted_.insert(static_cast<WorkerId>(partition));
    return absl::OkStatus();
  };
  handler_.on_assigned = [this](int32_t partition,
                                const std::optional<GroupConsumer::Committed>& committed) {
    return Start(static_cast<WorkerId>(partition), committed);
  };
  handler_.on_revoked = [](int32_t, bool) { return absl::OkStatus(); };
}

void MemberRows::Read(const std::set<WorkerId>& workers) {
  std::set<int32_t> partitions;
  for (const WorkerId worker : workers) partitions.insert(static_cast<int32_t>(worker));
  rows_->Read(std::move(partitions));
}

// What an earlier world has asked for may be assigned first, and is revoked then.
StatusOr<Offset> MemberRows::OnAssigned(WorkerId worker,
                                        const std::optional<GroupConsumer::Committed>& committed) {
  assigned_[worker] = committed;
  if (task_.Hosts(worker)) return Start(worker, committed);
  return committed ? committed->offset : Offset(0);
}

StatusOr<Offset> MemberRows::Start(WorkerId worker,
                                   const std::optional<GroupConsumer::Committed>& committed) {
  const auto partition = static_cast<int32_t>(worker);
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([&] {
    return ranges_->QueryRange(partition, kBrokerCall);
  }));
  std::optional<WorkerFeed::Committed> position;
  if (committed) position = {committed->offset, committed->metadata};
  StatusOr<Offset> offset = task_.StartWorker(worker, position, {range.begin, range.end});
  if (absl::IsDataLoss(offset.status())) {
    return absl::DataLossError(topic_ + ", partition " + std::to_string(partition) + " " +
                               std::string(offset.status().message()) +
                               ". Start a new job (another --job)");
  }
  MILLRACE_RETURN_IF_ERROR(offset.status());
  spdlog::info("worker {}: reads rows from offset {}", worker, *offset);
  return offset;
}

void MemberRows::HoldOrLetGo(WorkerId worker) {
  WorkerFeed* const feed = task_.feed(worker);
  if (const std::optional<bool> hold = feed->TakeHold()) {
    rows_->Hold(static_cast<int32_t>(worker), *hold);
  }
}

StatusOr<size_t> MemberRows::Poll() {
  rows_taken_ = 0;
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, rows_->Poll(records_at_once_, handler_));
  if (events > 0) {
    records_at_once_ = std::clamp<size_t>(
        kMemberRowsAtOnce * events / std::max<size_t>(rows_taken_, 1), 1, kMemberRowsAtOnce);
  }
  // Rows were deleted under the reader: what is there is read again from its beginning.
  for (const WorkerId worker : std::exchange(deleted_, {})) {
    if (task_.feed(worker) == nullptr) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Offset offset, Start(worker, std::nullopt));
    MILLRACE_RETURN_IF_ERROR(rows_->Seek(static_cast<int32_t>(worker), offset));
  }
  MILLRACE_RETURN_IF_ERROR(StartWhoIsRead());
  MILLRACE_RETURN_IF_ERROR(task_.Advance());
  for (WorkerId worker = 0; worker < task_.worker_count(); ++worker) {
    if (task_.feed(worker) != nullptr) HoldOrLetGo(worker);
  }
  return events;
}

// Of a worker that has come back before its rows were not read any more, nothing is revoked and
// assigned.
Status MemberRows::StartWhoIsRead() {
  for (const auto& [worker, committed] : assigned_) {
    if (!task_.Hosts(worker) || task_.feed(worker) != nullptr) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Offset offset, Start(worker, committed));
    MILLRACE_RETURN_IF_ERROR(rows_->Seek(static_cast<int32_t>(worker), offset));
  }
  return absl::OkStatus();
}

void MemberRows::Commit(const std::vector<MemberTask::Positions>& positions) {
  for (const MemberTask::Positions& each : positions) {
    const auto partition = static_cast<int32_t>(each.worker);
    const GroupConsumer::Committed commit = {each.commit.offset, each.commit.Metadata()};
    rows_->Commit(partition, commit);
    if (const auto found = assigned_.find(each.worker); found != assigned_.end()) {
      found->second = commit;
    }
    if (each.rows_end) trimmer_->Trim(topic_, partition, *each.rows_end);
  }
}

}  // namespace millrace
