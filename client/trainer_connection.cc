#include "client/trainer_connection.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/line_sink.h"
#include "base/random_number.h"
#include "job/kafka_options.h"
#include "job/layout_in_force.h"
#include "kafka/timeouts.h"
#include "tasks/parameter_options.h"
#include "tasks/setting_bounds.h"
#include "tasks/task_options.h"
#include "topics/parameter_layout.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kRecordsAtOnce = 64;
constexpr std::chrono::seconds kRegistryEvery(3);

RepeatTimer::Duration RepeatInterval(const JobConfig& config) {
  const std::chrono::duration<double> least(config.worker().repeat_interval_s());
  return std::chrono::duration_cast<RepeatTimer::Duration>(least);
}

// Anybody may have written to the job's topic.
Status CheckPublished(const JobFeatures& features, const JobTraining& training) {
  MILLRACE_RETURN_IF_ERROR(CheckModel(features, training.training()));
  const std::optional<BoundedSetting> bad = FirstOutOfBounds(training.training());
  const bool has_shards = training.shards() >= 1 && training.shards() <= kMostShards;
  const Status groups = CheckGroups(training, features.workers());
  if (!bad && has_shards && groups.ok()) return absl::OkStatus();
  return absl::DataLossError(
      "the job topic holds invalid settings: " +
      (bad           ? std::string(bad->field) + ": " + bad->Complaint()
       : !has_shards ? std::to_string(training.shards()) + " shards"
                     : std::string(groups.message())) +
      ". Another program may have written them. Start a new job (another --job)");
}

}  // namespace

TrainerConnection::TrainerConnection(const JobConfig& config, WorkerId trainer,
                                     const JobFeatures& features, const std::atomic<bool>& stop,
                                     std::function<void()> while_waiting)
    : config_(config),
      trainer_(trainer),
      features_(features),
      stop_(stop),
      while_waiting_(std::move(while_waiting)),
      broker_retry_(stop, config.broker_timeout_s()),
      repeat_(RepeatInterval(config), std::chrono::steady_clock::now()),
      silence_(std::chrono::steady_clock::now()),
      served_until_(std::chrono::steady_clock::now()) {
  handler_.on_record = [this](const ConsumedRecord& record) {
    const Status usable =
        TakeRecord(record.partition, record.key, record.value, LogReading::Way::kLog);
    if (!usable.ok()) unusable_ = std::string(usable.message());
    return absl::OkStatus();
  };
  handler_.on_out_of_range = [this](int32_t partition) {
    behind_.insert(partition);
    return absl::OkStatus();
  };
}

StatusOr<std::unique_ptr<TrainerConnection>> TrainerConnection::Open(
    const JobConfig& config, WorkerId trainer, const JobFeatures& features, double timeout_s,
    const std::atomic<bool>& stop, std::function<void()> while_waiting) {
  std::unique_ptr<TrainerConnection> connection(
      new TrainerConnection(config, trainer, features, stop, std::move(while_waiting)));
  MILLRACE_RETURN_IF_ERROR(connection->Agree(timeout_s));
  MILLRACE_RETURN_IF_ERROR(connection->EnterLayoutInForce());
  return connection;
}

Status TrainerConnection::Agree(double timeout_s) {
  MILLRACE_ASSIGN_OR_RETURN(registry_, JobRegistry::Create(config_, stop_));
  // Refusals of before are of servers that have ended.
  MILLRACE_RETURN_IF_ERROR(registry_->ReadTraining().status());
  const Offset refused = registry_->refusal() ? registry_->refusal()->offset : Offset(-1);
  MILLRACE_RETURN_IF_ERROR(registry_->PublishFeatures(features_));
  MILLRACE_RETURN_IF_ERROR(WaitForTraining(timeout_s, refused));
  return CheckPublished(features_, training_);
}

Status TrainerConnection::WaitForTraining(double timeout_s, Offset refused_before) {
  constexpr std::chrono::duration<double> kBetweenLines(5);
  const auto begin = std::chrono::steady_clock::now();
  auto next_line = kBetweenLines;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> published,
                              registry_->ReadTraining());
    if (published) {
      training_ = *published;
      return absl::OkStatus();
    }
    const std::optional<JobRegistry::Refusal>& refusal = registry_->refusal();
    if (refusal && refusal->offset > refused_before) {
      return absl::FailedPreconditionError("a server refuses the job: " + refusal->reason);
    }
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (timeout_s > 0 && waited.count() >= timeout_s) {
      return absl::DeadlineExceededError("no server has published the settings of the job " +
                                         config_.name() + ", epoch " +
                                         std::to_string(config_.epoch()) + ": does ServerApp run?");
    }
    if (ShouldStop()) return absl::CancelledError("stopped");
    if (waited >= next_line) {
      next_line += kBetweenLines;
      (void)GiveToLineSink(absl::StrFormat(
          "job %s: waiting for its training settings, which ServerApp publishes (%.0f s)",
          config_.name(), waited.count()));
    }
    wakeup_.WaitFor(kPoll);
  }
}

StatusOr<std::unique_ptr<TrainerConnection::Layout>> TrainerConnection::OpenLayout() {
  auto layout = std::make_unique<Layout>();
  layout->config = config_;
  layout->training = training_;
  JobTopics topics(stop_);
  MILLRACE_RETURN_IF_ERROR(
      EnterLayout(*registry_, topics, features_, layout->config, layout->training).status());
  const KafkaOptions kafka = ToKafkaOptions(config_);
  const std::string topic = TopicName(layout->config, Topic::kWeights);
  MILLRACE_ASSIGN_OR_RETURN(
      layout->sender,
      RecordSender::Create(layout->config, "trainer", {Topic::kGradients}, broker_retry_, nullptr));
  ConsumerOptions options;
  options.client_id = "trainer-weights";
  options.fetch_wait = kFetchWait;
  MILLRACE_ASSIGN_OR_RETURN(layout->weights,
                            PartitionConsumer::Create(kafka, options, topic, &wakeup_));
  MILLRACE_ASSIGN_OR_RETURN(layout->ranges, PartitionConsumer::Create(kafka, {}, topic, nullptr));
  const WorkerOptions worker = MakeWorkerOptions(features_, layout->training, trainer_);
  layout->shared = std::make_unique<SharedWeightsReader>(WeightsShapeFrom(worker, *model_));
  layout->shared_partition = worker.SharedPartition();
  // Reading stands at the end before the first question is asked: no answer is missed.
  MILLRACE_RETURN_IF_ERROR(ReadFromEnd(*layout, layout->shared_partition));
  MILLRACE_RETURN_IF_ERROR(ReadFromEnd(*layout, static_cast<int32_t>(trainer_)));
  MILLRACE_ASSIGN_OR_RETURN(
      layout->straight,
      AnswerReceiver::Create(layout->config, layout->training.shards(), &wakeup_));
  layout->straight->Subscribe({trainer_});
  return layout;
}

Status TrainerConnection::EnterLayoutInForce() {
  if (model_ == nullptr) model_ = MakeModel(features_, training_.training());
  MILLRACE_ASSIGN_OR_RETURN(layout_, OpenLayout());
  const WorkerOptions worker = MakeWorkerOptions(features_, layout_->training, trainer_);
  const uint64_t attempt = RandomNumber() >> 20;
  if (task_ == nullptr) {
    task_ = std::make_unique<TrainerTask>(worker, *model_, *LayOutParameters(features_), attempt);
  } else {
    task_->GoOver(worker, attempt);
  }
  clock_ = task_->clock();
  behind_.clear();
  unusable_.clear();
  out_.clear();
  const Time now = std::chrono::steady_clock::now();
  repeat_ = RepeatTimer(RepeatInterval(config_), now);
  silence_.End(now);
  return Ask();
}

Status TrainerConnection::ReadFromEnd(Layout& layout, int32_t partition) {
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([&] {
    return layout.ranges->QueryRange(partition, kBrokerCall);
  }));
  return layout.weights->Assign(partition, range.end);
}

Status TrainerConnection::TakeRecord(int32_t partition, std::string_view key,
                                     std::string_view value, LogReading::Way way) {
  if (partition != layout_->shared_partition) {
    layout_->reading.TakeOwn(way);
    return task_->ProcessWeights(key, value);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedWeights> shared,
                            layout_->shared->Take(key, value));
  if (shared == nullptr) return absl::OkStatus();
  layout_->reading.Take(*shared, way);
  task_->ProcessShared(shared);
  return absl::OkStatus();
}

void TrainerConnection::ReadShared() {
  if (layout_->reading.Begin()) behind_.insert(layout_->shared_partition);
}

StatusOr<size_t> TrainerConnection::PollOnce() {
  MILLRACE_ASSIGN_OR_RETURN(size_t events, layout_->weights->Poll(kRecordsAtOnce, handler_));
  events += layout_->straight->Poll(
      [this](int32_t partition, std::string_view key, std::string_view value) {
        return TakeRecord(partition, key, value, LogReading::Way::kStream);
      });
  if (layout_->straight->TakeEnded()) ReadShared();
  if (layout_->reading.TakeEnd()) {
    MILLRACE_RETURN_IF_ERROR(layout_->weights->Unassign(layout_->shared_partition));
  }
  MILLRACE_RETURN_IF_ERROR(task_->Advance(to_sender_));
  const auto now = std::chrono::steady_clock::now();
  if (task_->clock() != clock_) {
    clock_ = task_->clock();
    repeat_.Answered(now);
    silence_.End(now);
  }
  if (layout_->sender->DeliveryFailed()) task_->Repeat(out_);
  MILLRACE_RETURN_IF_ERROR(RunTimers(now));
  MILLRACE_RETURN_IF_ERROR(layout_->sender->Send(out_));
  return events;
}

StatusOr<size_t> TrainerConnection::Advance() {
  StatusOr<size_t> events = PollOnce();
  if (events.ok() || stop_) return events;
  const StatusOr<bool> is_over = IsNextLayoutInForce(*registry_, layout_->training.layout());
  if (!is_over.value_or(false)) return events;
  MILLRACE_RETURN_IF_ERROR(EnterLayoutInForce());
  return 1;
}

Status TrainerConnection::RunTimers(Time now) {
  if (repeat_.Due(now)) {
    const size_t before = out_.size();
    layout_->straight->LookAgain();
    ReadShared();
    task_->Repeat(out_);
    repeat_.Repeated(now, out_.size() > before);
  }
  // Weights are short-lived: who was away for longer than they are kept asks again, and so does who
  // has not read them meanwhile.
  for (const int32_t partition : std::exchange(behind_, {})) {
    MILLRACE_RETURN_IF_ERROR(ReadFromEnd(*layout_, partition));
    task_->Start(out_);
  }
  return CheckEnded(now);
}

// Servers that have ended do not answer.
Status TrainerConnection::CheckEnded(Time now) {
  if (task_->answered() || now < next_registry_read_) return absl::OkStatus();
  next_registry_read_ = now + kRegistryEvery;
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry_->ReadEnded());
  if (!EveryShardEnded(ended, layout_->training.shards())) return absl::OkStatus();
  return absl::FailedPreconditionError("the job " + config_.name() +
                                       " has ended: every trainer has left. Use another job");
}

Status TrainerConnection::Ask() {
  task_->Start(out_);
  return layout_->sender->Send(out_);
}

Status TrainerConnection::Serve() { return Advance().status(); }

bool TrainerConnection::ShouldStop() {
  const auto now = std::chrono::steady_clock::now();
  if (while_waiting_ && now >= next_while_waiting_) {
    next_while_waiting_ = now + kPoll;
    while_waiting_();
  }
  return stop_;
}

Status TrainerConnection::ServeUntil(const std::function<bool()>& done, double timeout_s) {
  const Time begin = std::chrono::steady_clock::now();
  silence_.Skip(begin - served_until_);
  const absl::Cleanup served = [this] { served_until_ = std::chrono::steady_clock::now(); };
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, Advance());
    if (done()) return absl::OkStatus();
    if (ShouldStop()) return absl::CancelledError("stopped");
    const Time now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> waited = now - begin;
    if (timeout_s > 0 && waited.count() >= timeout_s) {
      return absl::DeadlineExceededError(WhatIsAwaited());
    }
    MILLRACE_RETURN_IF_ERROR(LookForNextLayout(now));
    if (events == 0) layout_->straight->WaitFor(kIdleWait);
  }
}

// Shards of a layout that is no more in force answer nothing that brings a trainer on.
Status TrainerConnection::LookForNextLayout(Time now) {
  if (!silence_.IsLookDue(now)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool is_over,
                            IsNextLayoutInForce(*registry_, layout_->training.layout()));
  return is_over ? EnterLayoutInForce() : absl::OkStatus();
}

std::string TrainerConnection::WhatIsAwaited() const {
  const std::vector<ShardId> silent = task_->SilentShards();
  const std::string last =
      unusable_.empty() ? "" : ". The last record of weights that could not be used: " + unusable_;
  if (silent.empty()) {
    return "no answer has come in time: the servers may wait for other trainers" + last;
  }
  return "no answer has come in time from the shards " +
         absl::StrJoin(silent, ", ",
                       [](std::string* text, ShardId shard) {
                         text->append(std::to_string(uint32_t{shard}));
                       }) +
         ": do their servers run?" + last;
}

}  // namespace millrace
