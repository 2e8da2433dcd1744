#include "members/member_rows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// Rows that may come between two computations, about: a record has one or many.
constexpr size_t kMemberRowsAtOnce = 512;

}  // namespace

MemberRows::MemberRows(const std::string& job, Clients clients, MemberTask& task,
                       const BrokerRetry& broker_retry, std::function<void()> on_wait)
    : task_(task),
      broker_retry_(broker_retry),
      on_wait_(std::move(on_wait)),
      topic_(TopicName(job, Topic::kInputData)),
      ranges_(std::move(clients.ranges)),
      rows_(std::move(clients.rows)),
      trimmer_(std::move(clients.admin)) {
  SetHandler();
}

StatusOr<std::unique_ptr<MemberRows>> MemberRows::Create(const JobConfig& config, MemberTask& task,
                                                         const BrokerRetry& broker_retry,
                                                         Wakeup* wakeup,
                                                         std::function<void()> on_wait) {
  const KafkaOptions kafka = ToKafkaOptions(config);
  const std::string topic = TopicName(config.name(), Topic::kInputData);
  ConsumerOptions options;
  options.fetch_wait = kFetchWait;
  options.client_id = "member-input";
  options.group_id = WorkersGroup(config);
  options.joins_group = false;
  options.stall_timeout_s = config.worker().stall_timeout_s();
  options.read_committed = true;
  Clients clients;
  MILLRACE_ASSIGN_OR_RETURN(clients.rows, GroupConsumer::Create(kafka, options, topic, wakeup));
  // A client whose connection waits for records answers a question about offsets only after that.
  MILLRACE_ASSIGN_OR_RETURN(clients.ranges, PartitionConsumer::Create(kafka, {}, topic, nullptr));
  MILLRACE_ASSIGN_OR_RETURN(clients.admin, KafkaAdmin::Create(kafka, "member-trim"));
  return std::make_unique<MemberRows>(config.name(), std::move(clients), task, broker_retry,
                                      std::move(on_wait));
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
    return OnAssigned(static_cast<WorkerId>(partition), committed);
  };
  handler_.on_revoked = [this](int32_t partition, bool) {
    assigned_.erase(static_cast<WorkerId>(partition));
    return absl::OkStatus();
  };
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

StatusOr<PartitionConsumer::Range> MemberRows::RangeOf(WorkerId worker) {
  return broker_retry_.Run([&] {
    on_wait_();
    return ranges_->QueryRange(static_cast<int32_t>(worker), kBrokerCall);
  });
}

Status MemberRows::RowsLost(WorkerId worker, const Status& why) const {
  if (!absl::IsDataLoss(why)) return why;
  return absl::DataLossError(topic_ + ", partition " + std::to_string(worker) + " " +
                             std::string(why.message()) + ". Start a new job (another --job)");
}

StatusOr<Offset> MemberRows::Start(WorkerId worker,
                                   const std::optional<GroupConsumer::Committed>& committed) {
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, RangeOf(worker));
  std::optional<WorkerFeed::Committed> position;
  if (committed) position = {committed->offset, committed->metadata};
  StatusOr<Offset> offset = task_.StartWorker(worker, position, {range.begin, range.end});
  if (!offset.ok()) return RowsLost(worker, offset.status());
  spdlog::info("worker {}: reads rows from offset {}", worker, *offset);
  return offset;
}

// Rows were deleted under the reader: by who hosts the worker elsewhere, further on. What is there
// is read again from its beginning.
Status MemberRows::StartAgain(WorkerId worker) {
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, RangeOf(worker));
  const Status gone = task_.feed(worker)->RowsAreGone({range.begin, range.end});
  if (!gone.ok()) return RowsLost(worker, gone);
  MILLRACE_ASSIGN_OR_RETURN(const Offset offset, Start(worker, std::nullopt));
  return rows_->Seek(static_cast<int32_t>(worker), offset);
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
  for (const WorkerId worker : std::exchange(deleted_, {})) {
    if (task_.feed(worker) != nullptr) MILLRACE_RETURN_IF_ERROR(StartAgain(worker));
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
    if (each.rows_end) trimmer_.Trim(topic_, partition, *each.rows_end);
  }
}

Status MemberRows::Close(bool commits) {
  if (!commits) rows_->DropCommits();
  return rows_->Close();
}

}  // namespace millrace
