#include "client/trainer_connection.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/random_number.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "tasks/parameter_options.h"
#include "tasks/setting_bounds.h"
#include "tasks/task_options.h"
#include "topics/most_workers.h"
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
      repeat_(RepeatInterval(config), std::chrono::steady_clock::now()) {}

StatusOr<std::unique_ptr<TrainerConnection>> TrainerConnection::Open(
    const JobConfig& config, WorkerId trainer, const JobFeatures& features, double timeout_s,
    const std::atomic<bool>& stop, std::function<void()> while_waiting) {
  std::unique_ptr<TrainerConnection> connection(
      new TrainerConnection(config, trainer, features, stop, std::move(while_waiting)));
  MILLRACE_RETURN_IF_ERROR(connection->Agree(timeout_s));
  MILLRACE_RETURN_IF_ERROR(connection->OpenClients());
  return connection;
}

Status TrainerConnection::Agree(double timeout_s) {
  MILLRACE_ASSIGN_OR_RETURN(registry_, JobRegistry::Create(config_, stop_));
  // Refusals of before are of servers that have ended.
  MILLRACE_RETURN_IF_ERROR(registry_->ReadTraining().status());
  const Offset refused = registry_->refusal() ? registry_->refusal()->offset : Offset(-1);
  MILLRACE_RETURN_IF_ERROR(registry_->PublishFeatures(features_));
  MILLRACE_RETURN_IF_ERROR(WaitForTraining(timeout_s, refused));
  MILLRACE_RETURN_IF_ERROR(CheckPublished(features_, training_));
  return PrepareTopics(config_,
                       TopicSizesOf(training_.training(), features_.workers(), training_.shards(),
                                    GroupCount(training_)),
                       stop_);
}

Status TrainerConnection::WaitForTraining(double timeout_s, Offset refused_before) {
  const auto begin = std::chrono::steady_clock::now();
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
    wakeup_.WaitFor(kPoll);
  }
}

Status TrainerConnection::OpenClients() {
  const KafkaOptions kafka = ToKafkaOptions(config_);
  const std::string topic = TopicName(config_, Topic::kWeights);
  MILLRACE_ASSIGN_OR_RETURN(sender_, RecordSender::Create(config_, "trainer", {Topic::kGradients},
                                                          broker_retry_, &wakeup_));
  ConsumerOptions options;
  options.client_id = "trainer-weights";
  options.fetch_wait = kFetchWait;
  MILLRACE_ASSIGN_OR_RETURN(weights_, PartitionConsumer::Create(kafka, options, topic, &wakeup_));
  MILLRACE_ASSIGN_OR_RETURN(ranges_, PartitionConsumer::Create(kafka, {}, topic, nullptr));
  model_ = MakeModel(features_, training_.training());
  const WorkerOptions worker = MakeWorkerOptions(features_, training_, trainer_);
  task_ = std::make_unique<TrainerTask>(worker, *model_, *LayOutParameters(features_),
                                        RandomNumber() >> 20);
  shared_ = std::make_unique<SharedWeightsReader>(WeightsShapeFrom(worker, *model_));
  shared_partition_ = worker.SharedPartition();
  handler_.on_record = [this](const ConsumedRecord& record) {
    const Status usable = TakeRecord(record.partition, record.key, record.value);
    if (!usable.ok()) unusable_ = std::string(usable.message());
    return absl::OkStatus();
  };
  handler_.on_out_of_range = [this](int32_t partition) {
    behind_.insert(partition);
    return absl::OkStatus();
  };
  // Reading stands at the end before the first question is asked: no answer is missed.
  MILLRACE_RETURN_IF_ERROR(ReadFromEnd(shared_partition_));
  MILLRACE_RETURN_IF_ERROR(ReadFromEnd(static_cast<int32_t>(trainer_)));
  MILLRACE_ASSIGN_OR_RETURN(straight_,
                            AnswerReceiver::Create(config_, training_.shards(), &wakeup_));
  straight_->Subscribe({trainer_});
  task_->Start(out_);
  return sender_->Send(out_);
}

Status TrainerConnection::ReadFromEnd(int32_t partition) {
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([&] {
    return ranges_->QueryRange(partition, kBrokerCall);
  }));
  return weights_->Assign(partition, range.end);
}

Status TrainerConnection::TakeRecord(int32_t partition, std::string_view key,
                                     std::string_view value) {
  if (partition != shared_partition_) return task_->ProcessWeights(key, value);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedWeights> shared,
                            shared_->Take(key, value));
  if (shared != nullptr) task_->ProcessShared(shared);
  return absl::OkStatus();
}

StatusOr<size_t> TrainerConnection::PollOnce() {
  MILLRACE_ASSIGN_OR_RETURN(size_t events, weights_->Poll(kRecordsAtOnce, handler_));
  events +=
      straight_->Poll([this](int32_t partition, std::string_view key, std::string_view value) {
        return TakeRecord(partition, key, value);
      });
  MILLRACE_RETURN_IF_ERROR(task_->Advance(out_));
  const auto now = std::chrono::steady_clock::now();
  if (task_->clock() != clock_) {
    clock_ = task_->clock();
    repeat_.Answered(now);
  }
  if (sender_->DeliveryFailed()) task_->Repeat(out_);
  MILLRACE_RETURN_IF_ERROR(RunTimers(now));
  MILLRACE_RETURN_IF_ERROR(sender_->Send(out_));
  return events;
}

Status TrainerConnection::RunTimers(Time now) {
  if (repeat_.Due(now)) {
    const size_t before = out_.size();
    straight_->LookAgain();
    task_->Repeat(out_);
    repeat_.Repeated(now, out_.size() > before);
  }
  // Weights are short-lived: who was away for longer than they are kept asks again.
  for (const int32_t partition : std::exchange(behind_, {})) {
    MILLRACE_RETURN_IF_ERROR(ReadFromEnd(partition));
    task_->Start(out_);
  }
  return CheckEnded(now);
}

// Servers that have ended do not answer.
Status TrainerConnection::CheckEnded(Time now) {
  if (task_->answered() || now < next_registry_read_) return absl::OkStatus();
  next_registry_read_ = now + kRegistryEvery;
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry_->ReadEnded());
  if (!EveryShardEnded(ended, training_.shards())) return absl::OkStatus();
  return absl::FailedPreconditionError("the job " + config_.name() +
                                       " has ended: every trainer has left. Use another job");
}

Status TrainerConnection::Ask() {
  task_->Start(out_);
  return sender_->Send(out_);
}

Status TrainerConnection::Serve() { return PollOnce().status(); }

bool TrainerConnection::ShouldStop() {
  const auto now = std::chrono::steady_clock::now();
  if (while_waiting_ && now >= next_while_waiting_) {
    next_while_waiting_ = now + kPoll;
    while_waiting_();
  }
  return stop_;
}

Status TrainerConnection::ServeUntil(const std::function<bool()>& done, double timeout_s) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, PollOnce());
    if (done()) return absl::OkStatus();
    if (ShouldStop()) return absl::CancelledError("stopped");
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (timeout_s > 0 && waited.count() >= timeout_s) {
      return absl::DeadlineExceededError(WhatIsAwaited());
    }
    if (events == 0) wakeup_.WaitFor(kIdleWait);
  }
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
