#include "follower/freshness_probe.h"

#include <spdlog/spdlog.h>

#include <optional>

#include "base/big_endian.h"
#include "base/clock.h"
#include "follower/job_model.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "tasks/task_options.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kLookFor(1);
constexpr seconds kWaitForRows(10);  // if none come, the next worker is looked at
constexpr seconds kPause(5);
constexpr seconds kBrokerAnswers(1);
constexpr size_t kProbedAtOnce = 1000;

}  // namespace

FreshnessProbe::FreshnessProbe(const JobConfig& config, const FoundJob& job, bool reads_answers)
    : config_(config),
      job_(job),
      reads_answers_(reads_answers),
      shape_(ShapeOfAnswers(job.features, job.training,
                            *MakeModel(job.features, job.training.training()))),
      thread_([this] { Run(); }) {}

FreshnessProbe::~FreshnessProbe() {
  ending_ = true;
  wakeup_.Notify();
  if (thread_.joinable()) thread_.join();
}

void FreshnessProbe::NoteCounted(WorkerId worker, RowNumber end, int64_t sent_ms) {
  const std::lock_guard lock(mutex_);
  if (worker == worker_) freshness_.NoteCounted(end, sent_ms);
}

void FreshnessProbe::NoteModel(int64_t sent_ms) {
  const std::lock_guard lock(mutex_);
  freshness_.NoteModel(sent_ms, NowMs());
}

std::string FreshnessProbe::Json() const {
  const std::lock_guard lock(mutex_);
  return freshness_.Json();
}

bool FreshnessProbe::HasWaiting() const {
  const std::lock_guard lock(mutex_);
  return freshness_.has_waiting();
}

void FreshnessProbe::Run() {
  // (A worker's count does not say which rows of its partition it stands for.)
  if (job_.training.training().sharding() == Training::DYNAMIC) return;
  Status status = Open();
  const uint32_t workers = DealingOf(job_.features).workers;  // that have rows
  for (WorkerId worker = 0; status.ok() && !ending_; worker = WorkerId((worker + 1) % workers)) {
    status = Look(worker);
    if (IsAway(status)) status = absl::OkStatus();  // the reader of the weights says so
    if (!status.ok()) break;
    const auto until = steady_clock::now() + kPause;
    while (!ending_ && steady_clock::now() < until) wakeup_.WaitFor(kPause);
  }
  if (status.ok() || absl::IsNotFound(status) || ending_) return;
  spdlog::warn("how fresh the weights are is not measured: {}", TextOf(status));
}

Status FreshnessProbe::Open() {
  const auto open = [this](Topic topic) {
    // (Rows may stand in transactions.)
    return PartitionConsumer::Create(ToKafkaOptions(config_),
                                     {.client_id = "predictor", .read_committed = true},
                                     TopicName(config_, topic), &wakeup_);
  };
  MILLRACE_ASSIGN_OR_RETURN(rows_, open(Topic::kInputData));
  if (reads_answers_) {
    MILLRACE_ASSIGN_OR_RETURN(answers_, open(Topic::kWeights));
  }
  return absl::OkStatus();
}

Status FreshnessProbe::Assign(int32_t partition) {
  for (PartitionConsumer* const consumer : {answers_.get(), rows_.get()}) {
    if (consumer == nullptr) continue;
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                              consumer->QueryRange(partition, kBrokerAnswers));
    MILLRACE_RETURN_IF_ERROR(consumer->Assign(partition, range.end));
  }
  return absl::OkStatus();
}

Status FreshnessProbe::Unassign(int32_t partition) {
  Status status = rows_->Unassign(partition);
  if (answers_ != nullptr) status.Update(answers_->Unassign(partition));
  return status;
}

Status FreshnessProbe::Look(WorkerId worker) {
  const auto partition = static_cast<int32_t>(worker);
  if (Status assigned = Assign(partition); !assigned.ok()) {
    Unassign(partition).IgnoreError();  // or two workers' answers would be read the next time
    return assigned;
  }
  {
    const std::lock_guard lock(mutex_);
    worker_ = worker;
    freshness_.Begin();
  }
  joiner_ = std::make_unique<WeightsJoiner>(shape_.shards);
  has_rows_ = is_behind_ = false;
  const auto began = steady_clock::now();
  bool is_open = true;
  Status status;
  while (status.ok() && !ending_ && (is_open || HasWaiting())) {
    status = Poll(partition);
    const auto lasted = steady_clock::now() - began;
    if (is_open && lasted >= (has_rows_ ? kLookFor : kWaitForRows)) {
      is_open = false;
      status.Update(rows_->Unassign(partition));
    }
  }
  status.Update(Unassign(partition));
  return status;
}

Status FreshnessProbe::Poll(int32_t partition) {
  ConsumerHandler rows;
  rows.on_record = [this](const ConsumedRecord& record) {
    TakeRows(record);
    return absl::OkStatus();
  };
  // The worker has deleted them, so it has them: later ones will do.
  rows.on_out_of_range = [](int32_t) { return absl::UnavailableError("rows were deleted"); };
  MILLRACE_ASSIGN_OR_RETURN(const size_t some, rows_->Poll(kProbedAtOnce, rows));
  size_t more = 0;
  if (answers_ != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(more, PollAnswers(partition));
  }
  {
    const std::lock_guard lock(mutex_);
    freshness_.GiveUp(NowMs());
  }
  if (some + more == 0) wakeup_.WaitFor(kPoll);
  return absl::OkStatus();
}

StatusOr<size_t> FreshnessProbe::PollAnswers(int32_t partition) {
  ConsumerHandler answers;
  answers.on_record = [this](const ConsumedRecord& record) {
    TakeAnswer(record);
    return absl::OkStatus();
  };
  answers.on_out_of_range = [this](int32_t) {
    is_behind_ = true;
    return absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, answers_->Poll(kProbedAtOnce, answers));
  if (is_behind_) {
    is_behind_ = false;
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                              answers_->QueryRange(partition, kBrokerAnswers));
    MILLRACE_RETURN_IF_ERROR(answers_->Assign(partition, range.begin));
  }
  return events;
}

void FreshnessProbe::TakeRows(const ConsumedRecord& record) {
  const std::optional<InputKey> key = DecodeInputKey(record.key);
  if (!key || !key->has_rows() || record.timestamp_ms <= 0) return;
  has_rows_ = true;
  const std::lock_guard lock(mutex_);
  freshness_.AddRows(key->first, key->count, record.timestamp_ms);
}

// (What cannot be used is the worker's to report.)
void FreshnessProbe::TakeAnswer(const ConsumedRecord& record) {
  const std::optional<uint32_t> shard = DecodeBigEndian32(record.key.substr(0, 4));
  if (!shard || *shard != 0) return;
  const auto body = joiner_->Take(record.key, record.value);
  if (!body.ok() || !*body) return;
  const StatusOr<Weights> answer = DecodeWeights(**body, shape_);
  if (!answer.ok() || answer->shard() != 0 || answer->lost() || answer->previous_round()) return;
  const std::lock_guard lock(mutex_);
  freshness_.NoteCounted(RowNumber(answer->rows().end()), record.timestamp_ms);
}

}  // namespace millrace
