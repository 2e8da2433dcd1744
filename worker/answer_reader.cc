#include "worker/answer_reader.h"

#include <optional>

#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "tasks/task_options.h"
#include "topics/server_groups.h"
#include "topics/topics.h"
#include "worker/answer_reports.h"

namespace millrace {
namespace {

constexpr size_t kAnswersAtOnce = 64;

}  // namespace

StatusOr<std::unique_ptr<AnswerReader>> AnswerReader::Create(const JobConfig& config,
                                                             const JobFeatures& features,
                                                             const JobTraining& training,
                                                             const Model& model, HostedTasks& tasks,
                                                             RangeOf range_of, Wakeup* wakeup) {
  std::unique_ptr<AnswerReader> reader(
      new AnswerReader(TopicName(config, Topic::kWeights), tasks, std::move(range_of)));
  for (uint32_t group = 0; group < GroupCount(training); ++group) {
    const WorkerOptions options =
        MakeWorkerOptions(features, training, FirstWorkerOf(training, group));
    reader->shared_.emplace(options.SharedPartition(),
                            Shared{SharedWeightsReader(WeightsShapeFrom(options, model)), {}});
  }
  MILLRACE_RETURN_IF_ERROR(reader->Open(config, training.shards(), wakeup));
  return reader;
}

Status AnswerReader::Open(const JobConfig& config, uint32_t shards, Wakeup* wakeup) {
  const KafkaOptions kafka = ToKafkaOptions(config);
  ConsumerOptions options;
  options.client_id = "worker-weights";
  options.fetch_wait = kFetchWait;
  MILLRACE_ASSIGN_OR_RETURN(consumer_, PartitionConsumer::Create(kafka, options, topic_, wakeup));
  // A client whose connection waits for records answers a question about offsets only after that.
  MILLRACE_ASSIGN_OR_RETURN(ranges_, PartitionConsumer::Create(kafka, {}, topic_, nullptr));
  MILLRACE_ASSIGN_OR_RETURN(straight_, AnswerReceiver::Create(config, shards, wakeup));
  return absl::OkStatus();
}

StatusOr<size_t> AnswerReader::Poll(std::vector<OutgoingRecord>& out) {
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    Take(record, out);
    return absl::OkStatus();
  };
  handler.on_out_of_range = [this](int32_t partition) {
    behind_.insert(partition);
    return absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(size_t events, consumer_->Poll(kAnswersAtOnce, handler));
  events +=
      straight_->Poll([this](int32_t partition, std::string_view key, std::string_view value) {
        return TakeStraight(partition, key, value);
      });
  if (straight_->TakeEnded()) ReadShared();
  MILLRACE_RETURN_IF_ERROR(EndReadingShared());
  return events;
}

void AnswerReader::Take(const ConsumedRecord& record, std::vector<OutgoingRecord>& out) {
  if (shared_.contains(record.partition)) return TakeShared(record, out);
  const auto found = tasks_.find(static_cast<WorkerId>(record.partition));
  if (found == tasks_.end()) return;
  WorkerTask& task = *found->second.task;
  shared_.at(task.options().SharedPartition()).reading.TakeOwn(LogReading::Way::kLog);
  const uint64_t unusable = task.unusable_answers();
  found->second.feed->TakeWeights(record.offset, record.key, record.value, out);
  if (task.unusable_answers() > unusable) ReportUnusableAnswers(task);
}

// What all workers read is decoded once.
void AnswerReader::TakeShared(const ConsumedRecord& record, std::vector<OutgoingRecord>& out) {
  Shared& partition = shared_.at(record.partition);
  const StatusOr<std::shared_ptr<const SharedWeights>> shared =
      partition.reader.Take(record.key, record.value);
  if (shared.ok() && *shared != nullptr) partition.reading.Take(**shared, LogReading::Way::kLog);
  for (HostedTask* hosted : ReadersOf(tasks_, record.partition)) {
    if (shared.ok()) {
      if (*shared != nullptr) hosted->feed->TakeShared(*shared);
      continue;
    }
    hosted->task->ProcessUnusableShared(record.offset, record.key, record.value, shared.status(),
                                        out);
    ReportUnusableAnswers(*hosted->task);
  }
}

Status AnswerReader::TakeStraight(int32_t partition, std::string_view key, std::string_view value) {
  const auto of_all = shared_.find(partition);
  if (of_all == shared_.end()) {
    const auto found = tasks_.find(static_cast<WorkerId>(partition));
    if (found == tasks_.end()) return absl::OkStatus();
    const int32_t shared = found->second.task->options().SharedPartition();
    shared_.at(shared).reading.TakeOwn(LogReading::Way::kStream);
    return found->second.feed->TakeStraight(key, value);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedWeights> shared,
                            of_all->second.reader.Take(key, value));
  if (shared == nullptr) return absl::OkStatus();
  of_all->second.reading.Take(*shared, LogReading::Way::kStream);
  for (HostedTask* hosted : ReadersOf(tasks_, partition)) hosted->feed->TakeShared(shared);
  return absl::OkStatus();
}

Status AnswerReader::Begin(WorkerId worker, const WorkerTask& task) {
  const int32_t shared = task.options().SharedPartition();
  const bool begins = shared_.at(shared).reading.Begin();
  if (begins || ReadersOf(tasks_, shared).empty()) MILLRACE_RETURN_IF_ERROR(ReadFromEnd(shared));
  return ReadFromEnd(static_cast<int32_t>(worker));
}

void AnswerReader::TasksHaveChanged() {
  std::set<WorkerId> workers;
  for (const auto& [worker, hosted] : tasks_) workers.insert(worker);
  straight_->Subscribe(workers);
}

Status AnswerReader::End(WorkerId worker, int32_t shared) {
  TasksHaveChanged();
  Status status = consumer_->Unassign(static_cast<int32_t>(worker));
  if (ReadersOf(tasks_, shared).empty()) status.Update(consumer_->Unassign(shared));
  return status;
}

Status AnswerReader::CatchUp(std::vector<OutgoingRecord>& out) {
  for (const int32_t partition : std::exchange(behind_, {})) {
    const std::vector<HostedTask*> readers = ReadersOf(tasks_, partition);
    if (readers.empty()) continue;
    MILLRACE_RETURN_IF_ERROR(ReadFromEnd(partition));
    for (HostedTask* hosted : readers) hosted->feed->Started(out);
  }
  return absl::OkStatus();
}

void AnswerReader::LookAgain() {
  straight_->LookAgain();
  ReadShared();
}

void AnswerReader::ReadShared() {
  for (auto& [partition, shared] : shared_) {
    if (shared.reading.Begin()) behind_.insert(partition);
  }
}

Status AnswerReader::EndReadingShared() {
  for (auto& [partition, shared] : shared_) {
    if (shared.reading.TakeEnd()) MILLRACE_RETURN_IF_ERROR(consumer_->Unassign(partition));
  }
  return absl::OkStatus();
}

Status AnswerReader::ReadFromEnd(int32_t partition) {
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, range_of_(*ranges_, partition));
  return consumer_->Assign(partition, range.end);
}

}  // namespace millrace
