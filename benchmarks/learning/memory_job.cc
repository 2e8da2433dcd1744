#include "benchmarks/learning/memory_job.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "tasks/task_options.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr int64_t kTimeMs = 0;  // of every record

}  // namespace

void MemoryRows::Add(const Row& row) {
  const RowPlace place = PlaceOfRow(rows_++, dealing_);
  Partition& partition = partitions_[place.worker];
  if (!partition.batch.Takes(row)) Close(partition);
  partition.batch.Add(row);
  partition.end = place.row + 1;
}

void MemoryRows::Close(Partition& partition) {
  const uint32_t rows = partition.batch.rows();
  if (rows == 0) return;
  const InputKey key{RowNumber(partition.end - rows), rows};
  partition.records.push_back({key, EncodeRows(partition.batch)});
}

void MemoryRows::Finish() {
  for (Partition& partition : partitions_) {
    Close(partition);
    partition.records.push_back({{partition.end, 0}, EncodeEnd(partition.end)});
  }
}

MemoryJob::MemoryJob(const JobFeatures& features, const JobTraining& training,
                     const MemoryRows& rows)
    : workers_count_(features.workers()),
      model_(MakeModel(features, training.training())),
      shard_(MakeServerOptions(features, training, ShardId(0)), store_),
      shared_(WeightsShapeFrom(MakeWorkerOptions(features, training, WorkerId(0)), *model_)) {
  MILLRACE_CHECK(training.shards() == 1);
  for (WorkerId worker = 0; worker < workers_count_; ++worker) {
    workers_.push_back({std::make_unique<WorkerTask>(MakeWorkerOptions(features, training, worker),
                                                     RowShapeFrom(features), *model_, worker + 1),
                        &rows.records(worker)});
  }
}

Status MemoryJob::Run() {
  MILLRACE_RETURN_IF_ERROR(Start());
  while (!shard_.processor().AllLeft()) {
    bool did = false;
    for (Worker& worker : workers_) {
      MILLRACE_ASSIGN_OR_RETURN(const bool worked, Advance(worker));
      did = did || worked;
    }
    MILLRACE_ASSIGN_OR_RETURN(const bool folded, AdvanceShard());
    if (!did && !folded) return absl::InternalError("the job stands still before its end");
  }
  return absl::OkStatus();
}

Status MemoryJob::Start() {
  MILLRACE_RETURN_IF_ERROR(shard_.Load());
  MILLRACE_RETURN_IF_ERROR(shard_.StartReplay(0, 0));
  for (Worker& worker : workers_) {
    MILLRACE_RETURN_IF_ERROR(worker.task->StartReading(std::nullopt, 0, nullptr).status());
    worker.task->Start(gradients_);
  }
  return absl::OkStatus();
}

bool MemoryJob::HasRowsFor(const Worker& worker) {
  return worker.next_row < worker.rows->size() && worker.task->WantsRows();
}

StatusOr<bool> MemoryJob::Advance(Worker& worker) {
  bool did = !worker.weights.empty();
  MILLRACE_RETURN_IF_ERROR(TakeWeights(worker));
  while (HasRowsFor(worker)) {
    const MemoryRows::Record& record = (*worker.rows)[worker.next_row];
    const auto offset = static_cast<Offset>(worker.next_row++);
    MILLRACE_RETURN_IF_ERROR(
        worker.task->ProcessInput({offset, kTimeMs, EncodeInputKey(record.key), record.value}));
    did = true;
  }
  MILLRACE_RETURN_IF_ERROR(worker.task->Advance(out_));
  // What it evaluates by itself nobody reads.
  worker.task->TakeEvaluations();
  for (OutgoingRecord& record : out_) {
    if (record.topic == Topic::kGradients) gradients_.push_back(std::move(record));
  }
  // (Shared weights that say that its rows are counted make room for others, and send nothing.)
  did = did || !out_.empty() || HasRowsFor(worker);
  out_.clear();
  return did;
}

Status MemoryJob::TakeWeights(Worker& worker) {
  for (; !worker.weights.empty(); worker.weights.pop_front()) {
    const OutgoingRecord& record = worker.weights.front();
    worker.task->ProcessWeights(weights_end_++, record.key, record.value, out_);
  }
  if (worker.task->unusable_answers() == 0) return absl::OkStatus();
  return absl::InternalError("an answer is unusable: " + worker.task->last_unusable_answer());
}

StatusOr<bool> MemoryJob::AdvanceShard() {
  const bool did = !gradients_.empty();
  const RecordSink sink([this](OutgoingRecord record) { return Deliver(std::move(record)); });
  for (const OutgoingRecord& record : std::exchange(gradients_, {})) {
    MILLRACE_RETURN_IF_ERROR(
        shard_feed_.Take({gradients_end_++, record.key, record.value, kTimeMs}, sink));
  }
  MILLRACE_RETURN_IF_ERROR(shard_feed_.AnswerDue(sink));
  return did;
}

Status MemoryJob::Deliver(OutgoingRecord record) {
  if (record.topic != Topic::kWeights) return absl::OkStatus();
  if (record.partition != SharedWeightsPartition(workers_count_)) {
    workers_[record.partition].weights.push_back(std::move(record));
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedWeights> shared,
                            shared_.Take(record.key, record.value));
  if (shared == nullptr) return absl::OkStatus();
  for (Worker& worker : workers_) worker.task->ProcessShared(shared);
  return absl::OkStatus();
}

}  // namespace millrace
