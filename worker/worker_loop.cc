#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random_number.h"
#include "job/evaluation_log.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/layout_in_force.h"
#include "job/record_sender.h"
#include "job/silence.h"
#include "job/trimmer.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "stores/rocksdb_byte_map.h"
#include "stores/store_generation.h"
#include "tasks/task_options.h"
#include "topics/most_workers.h"
#include "topics/row_codec.h"
#include "topics/topics.h"
#include "worker/advance_all.h"
#include "worker/answer_reader.h"
#include "worker/answer_reports.h"
#include "worker/hosted_task.h"
#include "worker/hosted_workers.h"
#include "worker/leased_input.h"
#include "worker/one_layout.h"
#include "worker/waiting_workers.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds kSaveEvery(500);
constexpr milliseconds kRegistryEvery(3000);
// Rows that may come between two computations, about: a record has one or many.
constexpr size_t kRowsAtOnce = 512;

class WorkerLoop {
 public:
  WorkerLoop(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             JobRegistry& registry, const std::optional<Incarnation>& self,
             const std::atomic<bool>& stop)
      : config_(config),
        self_(self),
        features_(features),
        training_(training),
        registry_(registry),
        shape_(RowShapeFrom(features)),
        model_(MakeModel(features, training.training())),
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()),
        input_topic_(TopicName(config.name(), Topic::kInputData)) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(Open());
    // A call that was waiting for a broker when the stop came ends as the loop does.
    Status status = Loop();
    // (Topics of shards that are no more may be deleted.)
    if (!status.ok() && !stop_) {
      has_next_layout_ = IsNextLayoutInForce(registry_, training_.layout()).value_or(false);
    }
    if (has_next_layout_ && !status.ok()) return absl::OkStatus();
    if (!status.ok() && !(stop_ && absl::IsCancelled(status))) return status;
    MILLRACE_RETURN_IF_ERROR(Close());
    if (has_next_layout_) {
      spdlog::info("the job's number of shards changes; it was {}", training_.shards());
      return absl::OkStatus();
    }
    if (job_ended_) {
      spdlog::info("the job has ended: every worker has left");
      return absl::OkStatus();
    }
    spdlog::info("stopped; everything is saved. The job continues when a WorkerApp runs");
    return absl::CancelledError("stopped");
  }

  // Whether the job has other shards by now, to which all of it is to be opened anew.
  bool has_next_layout() const { return has_next_layout_; }

 private:
  Status Loop() {
    while (!stop_) {
      // Weights first: an update that is owed is what the whole job waits for.
      MILLRACE_ASSIGN_OR_RETURN(size_t events, answers_->Poll(out_));
      MILLRACE_RETURN_IF_ERROR(Advance());
      MILLRACE_ASSIGN_OR_RETURN(const size_t records, PollRows());
      events += records;
      MILLRACE_RETURN_IF_ERROR(Advance());
      if (sender_->DeliveryFailed()) RepeatAll();
      const SteadyTime now = std::chrono::steady_clock::now();
      MILLRACE_RETURN_IF_ERROR(RunPeriodicTasks(now));
      MILLRACE_ASSIGN_OR_RETURN(has_next_layout_, HasNextLayout(now));
      if (has_next_layout_) break;
      MILLRACE_ASSIGN_OR_RETURN(job_ended_, JobEnded(now));
      if (job_ended_ && !config_.worker().stay()) break;
      if (events == 0) answers_->WaitFor(kIdleWait);
    }
    return absl::OkStatus();
  }

  // As many records as have brought enough rows the last time.
  StatusOr<size_t> PollRows() {
    rows_taken_ = 0;
    MILLRACE_RETURN_IF_ERROR(hosted_workers_->Follow());
    if (leased_input_) MILLRACE_RETURN_IF_ERROR(FollowLeases());
    MILLRACE_ASSIGN_OR_RETURN(const size_t events,
                              leased_input_ ? leased_input_->Poll(records_at_once_, leased_handler_)
                                            : input_->Poll(records_at_once_, input_handler_));
    if (events > 0) {
      records_at_once_ = std::clamp<size_t>(kRowsAtOnce * events / std::max<size_t>(rows_taken_, 1),
                                            1, kRowsAtOnce);
    }
    return events;
  }

  Status Open() {
    const KafkaOptions kafka = ToKafkaOptions(config_);
    MILLRACE_ASSIGN_OR_RETURN(
        sender_, RecordSender::Create(config_, "worker", {Topic::kGradients, Topic::kDeadLetter},
                                      broker_retry_, &wakeup_));
    const bool leases_rows = training_.training().sharding() == Training::DYNAMIC;
    const uint32_t most_workers = MostWorkers(training_.training(), features_.workers());
    MILLRACE_ASSIGN_OR_RETURN(
        hosted_workers_,
        HostedWorkers::Create(config_, self_, leases_rows, most_workers, broker_retry_, &wakeup_));
    input_ = hosted_workers_->rows();
    if (leases_rows) {
      MILLRACE_ASSIGN_OR_RETURN(leased_input_, LeasedInput::Create(config_, &wakeup_));
    }
    MILLRACE_ASSIGN_OR_RETURN(ranges_, PartitionConsumer::Create(kafka, {}, input_topic_, nullptr));
    MILLRACE_ASSIGN_OR_RETURN(answers_, AnswerReader::Create(
                                            config_, features_, training_, *model_, tasks_,
                                            [this](PartitionConsumer& consumer, int32_t partition) {
                                              return RangeOf(consumer, partition);
                                            },
                                            &wakeup_));
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KafkaAdmin> admin,
                              KafkaAdmin::Create(kafka, "worker-trim"));
    trimmer_ = std::make_unique<Trimmer>(std::move(admin));
    if (training_.training().schedule() == Training::BUFFER) {
      const std::string folder = config_.worker().data_dir() + "/" + config_.name();
      MILLRACE_ASSIGN_OR_RETURN(store_, OpenRocksDb(folder));
      MILLRACE_ASSIGN_OR_RETURN(const uint64_t generation, registry_.WaitForGeneration());
      MILLRACE_RETURN_IF_ERROR(ClaimForGeneration(*store_, generation, folder));
    }
    if (config_.worker().has_evaluation_log()) {
      MILLRACE_ASSIGN_OR_RETURN(evaluation_log_,
                                EvaluationLog::Open(config_.worker().evaluation_log(), true));
    }
    SetInputHandler();
    SetLeasedHandler();
    return absl::OkStatus();
  }

  void SetInputHandler() {
    input_handler_.on_record = [this](const ConsumedRecord& record) -> Status {
      const auto found = tasks_.find(static_cast<WorkerId>(record.partition));
      if (found == tasks_.end()) return absl::OkStatus();
      const std::optional<InputKey> key = DecodeInputKey(record.key);
      rows_taken_ += key ? key->count : 1;
      MILLRACE_RETURN_IF_ERROR(found->second.feed->TakeRows(
          {record.offset, record.timestamp_ms, record.key, record.value}));
      // Records hold many rows: at once, not after the poll.
      HoldOrLetGo(record.partition, *found->second.feed);
      return absl::OkStatus();
    };
    input_handler_.on_out_of_range = [this](int32_t partition) {
      rows_deleted_.insert(static_cast<WorkerId>(partition));
      return absl::OkStatus();
    };
    input_handler_.on_assigned = [this](int32_t partition,
                                        const std::optional<GroupConsumer::Committed>& committed) {
      return Assign(static_cast<WorkerId>(partition), committed);
    };
    input_handler_.on_revoked = [this](int32_t partition, bool lost) {
      return Revoke(static_cast<WorkerId>(partition), lost);
    };
  }

  void SetLeasedHandler() {
    leased_handler_.wish_of = [this](WorkerId worker) {
      const auto found = tasks_.find(worker);
      return found == tasks_.end() ? std::nullopt : found->second.task->WantedLease();
    };
    leased_handler_.wishes = [this] {
      std::vector<LeaseReader::Wish> wishes;
      for (const auto& [worker, hosted] : tasks_) {
        if (const auto wish = hosted.task->WantedLease()) wishes.push_back(*wish);
      }
      return wishes;
    };
    leased_handler_.on_record = [this](WorkerId worker, const InputDataRecord& record) {
      const std::optional<InputKey> key = DecodeInputKey(record.key);
      rows_taken_ += key ? key->count : 1;
      return tasks_.at(worker).feed->TakeRows(record);
    };
    leased_handler_.range_of = [this](int32_t partition) { return RangeOf(*ranges_, partition); };
  }

  void HoldOrLetGo(int32_t partition, WorkerFeed& feed) {
    if (!input_) return;  // leased rows are held by what their workers want
    if (const std::optional<bool> hold = feed.TakeHold()) input_->Hold(partition, *hold);
  }

  StatusOr<Offset> Assign(WorkerId worker,
                          const std::optional<GroupConsumer::Committed>& committed) {
    const auto partition = static_cast<int32_t>(worker);
    std::optional<WorkerFeed::Committed> position;
    if (committed) position = {committed->offset, committed->metadata};
    MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range rows, RangeOf(*ranges_, partition));
    HostedTask hosted = NewHosted(worker, Clock(0));
    StatusOr<Offset> offset = hosted.feed->Assigned(position, {rows.begin, rows.end}, store_.get());
    if (!offset.ok()) return RowsLost(partition, offset.status());
    MILLRACE_RETURN_IF_ERROR(Begin(worker, std::move(hosted)));
    spdlog::info("worker {}: joined; reads rows from offset {}", worker, *offset);
    return offset;
  }

  HostedTask NewHosted(WorkerId worker, Clock joined) {
    WorkerOptions options = MakeWorkerOptions(features_, training_, worker);
    options.joined = joined;
    options.evaluate_batches = evaluation_log_ != nullptr;
    const std::chrono::duration<double> least(config_.worker().repeat_interval_s());
    HostedTask hosted{RepeatTimer(std::chrono::duration_cast<RepeatTimer::Duration>(least),
                                  std::chrono::steady_clock::now())};
    hosted.joined = joined;
    // Names this attempt, so that chunks of two instances of a worker are never joined.
    hosted.task = std::make_unique<WorkerTask>(options, shape_, *model_, RandomNumber() >> 20);
    hosted.feed.emplace(*hosted.task);
    return hosted;
  }

  Status Begin(WorkerId worker, HostedTask hosted) {
    MILLRACE_RETURN_IF_ERROR(answers_->Begin(worker, *hosted.task));
    hosted.feed->Started(out_);
    tasks_.insert_or_assign(worker, std::move(hosted));
    answers_->TasksHaveChanged();
    return absl::OkStatus();
  }

  // ---- leases ----

  // Hosts whom the plan gives to this process, with what it leases to them.
  Status FollowLeases() {
    PlannedLeases& plan = hosted_workers_->leases();
    const std::set<uint32_t> changed = plan.TakeChanged();
    const std::set<int32_t>& workers = hosted_workers_->workers();
    std::vector<WorkerId> others;
    for (const auto& [worker, hosted] : tasks_) {
      if (!workers.contains(static_cast<int32_t>(worker))) others.push_back(worker);
    }
    for (const WorkerId worker : others) MILLRACE_RETURN_IF_ERROR(Revoke(worker, false));
    for (const int32_t number : workers) {
      const auto worker = static_cast<WorkerId>(number);
      const WorkerLeases* const leases = plan.Of(worker);
      if (leases == nullptr) continue;
      const auto found = tasks_.find(worker);
      if (found == tasks_.end()) {
        MILLRACE_RETURN_IF_ERROR(AssignLeased(worker, *leases));
      } else if (found->second.joined != Clock(leases->joined())) {
        spdlog::info("worker {}: it has left, and joins the job again", worker);
        tasks_.erase(found);
        MILLRACE_RETURN_IF_ERROR(AssignLeased(worker, *leases));
      } else if (changed.contains(worker)) {
        MILLRACE_RETURN_IF_ERROR(FollowLeases(worker, *leases, *found->second.feed));
      }
    }
    return absl::OkStatus();
  }

  Status FollowLeases(WorkerId worker, const WorkerLeases& leases, WorkerFeed& feed) {
    const StatusOr<bool> followed = feed.TakeLeases(leases, TailsOf(worker));
    if (!followed.ok()) {
      return absl::DataLossError("the topic plan, worker " + std::to_string(worker) + ": " +
                                 std::string(followed.status().message()) +
                                 ". Another program may have written there: check who may "
                                 "(docs/security.md), and start a new job (another --job)");
    }
    if (*followed) return absl::OkStatus();
    spdlog::info(
        "worker {}: another process has finished leases of this worker that this process has not "
        "read; it goes on with the worker's open leases in the plan",
        worker);
    tasks_.erase(worker);
    return AssignLeased(worker, leases);
  }

  Status AssignLeased(WorkerId worker, const WorkerLeases& leases) {
    HostedTask hosted = NewHosted(worker, Clock(leases.joined()));
    hosted.task->StartLeased(leases, TailsOf(worker));
    MILLRACE_RETURN_IF_ERROR(Begin(worker, std::move(hosted)));
    spdlog::info("worker {}: joined; begins with its lease {}", worker,
                 leases.next_number() - static_cast<uint64_t>(leases.open_size()));
    return absl::OkStatus();
  }

  std::vector<InputState> TailsOf(WorkerId worker) const {
    return hosted_workers_->leases().TailsOf(worker);
  }

  // The topic is not the one that was read before.
  Status RowsLost(int32_t partition, const Status& why) const {
    if (!absl::IsDataLoss(why)) return why;
    return absl::DataLossError(
        input_topic_ + ", partition " + std::to_string(partition) + " " +
        std::string(why.message()) +
        ". Start a new job (another --job); if all topics of the job were recreated on purpose, "
        "delete the consumer group " +
        WorkersGroup(config_) + " and remove " + config_.worker().data_dir() +
        ", which hold the positions in the earlier topic");
  }

  StatusOr<PartitionConsumer::Range> RangeOf(PartitionConsumer& consumer, int32_t partition) {
    return broker_retry_.Run([&] {
      hosted_workers_->ReportProgress();  // a broker that is away is no stall of ours
      return consumer.QueryRange(partition, kBrokerCall);
    });
  }

  Status Revoke(WorkerId worker, bool lost) {
    const auto found = tasks_.find(worker);
    if (found == tasks_.end()) return absl::OkStatus();
    spdlog::info("worker {}: {}", worker,
                 leased_input_ ? "the plan does not give it to this process any more"
                 : lost
                     ? "partition lost (session timeout): the consumer group gives it to a process "
                       "that it hears from, maybe to this one again"
                     : "partition revoked; another process may take it over");
    if (!lost) Commit(worker, found->second);
    Status status = Save(*found->second.task);
    const int32_t shared = found->second.task->options().SharedPartition();
    tasks_.erase(found);
    status.Update(answers_->End(worker, shared));
    return status;
  }

  Status Advance() {
    std::vector<WorkerFeed*> feeds;
    for (auto& [worker, hosted] : tasks_) feeds.push_back(&*hosted.feed);
    // Each may compute for long.
    MILLRACE_ASSIGN_OR_RETURN(
        const std::vector<bool> advanced,
        AdvanceAll(feeds, threads_, out_, [this] { hosted_workers_->ReportProgress(); }));
    size_t next = 0;
    for (auto& [worker, hosted] : tasks_) {
      if (!advanced[next++]) continue;
      if (hosted.task->clock() != hosted.clock) {
        hosted.clock = hosted.task->clock();
        hosted.repeat.Answered(std::chrono::steady_clock::now());
        silence_.End(std::chrono::steady_clock::now());
      }
      if (hosted.task->ended() != hosted.ended) {
        hosted.ended = true;
        spdlog::info("worker {}: end of {}", worker,
                     leased_input_ ? "its last lease"
                                   : "the stream at offset " +
                                         std::to_string(int64_t{hosted.task->next_offset()}));
      }
      ReportDeniedLeaves(*hosted.task, hosted.denied_leaves);
      HoldOrLetGo(static_cast<int32_t>(worker), *hosted.feed);
      if (evaluation_log_) {
        for (const WorkerOutput::Evaluation& e : hosted.task->TakeEvaluations()) {
          evaluation_log_->Write(NowMs(), worker, e.clock, e.figures, e.rows_seen);
        }
      }
    }
    return sender_->Send(out_);
  }

  void RepeatAll() {
    for (auto& [worker, hosted] : tasks_) hosted.task->Repeat(out_);
  }

  Status RunPeriodicTasks(SteadyTime now) {
    // The only timer of the protocol: what is unanswered is said again. It changes no result.
    for (auto& [worker, hosted] : tasks_) {
      if (!hosted.repeat.Due(now)) continue;
      answers_->LookAgain();
      const size_t before = out_.size();
      hosted.task->Repeat(out_);
      hosted.repeat.Repeated(now, out_.size() > before);
    }
    waiting_.ReportSilence(SilentShards(), now);
    waiting_.ReportIdle(!tasks_.empty(), *hosted_workers_, now);
    for (const WorkerId worker : std::exchange(rows_deleted_, {})) {
      MILLRACE_RETURN_IF_ERROR(StartAgain(worker));
    }
    MILLRACE_RETURN_IF_ERROR(answers_->CatchUp(out_));
    if (now >= next_save_) {
      next_save_ = now + kSaveEvery;
      for (auto& [worker, hosted] : tasks_) {
        Commit(worker, hosted);
        MILLRACE_RETURN_IF_ERROR(Save(*hosted.task));
        hosted_workers_->ReportProgress();
      }
    }
    return sender_->Send(out_);
  }

  std::set<ShardId> SilentShards() const {
    std::set<ShardId> silent;
    for (const auto& [worker, hosted] : tasks_) {
      for (const ShardId shard : hosted.task->SilentShards()) silent.insert(shard);
    }
    return silent;
  }

  // Rows were deleted under the reader: a new task starts at the first row that is there.
  Status StartAgain(WorkerId worker) {
    const auto found = tasks_.find(worker);
    if (found == tasks_.end()) return absl::OkStatus();
    const auto partition = static_cast<int32_t>(worker);
    MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range rows, RangeOf(*ranges_, partition));
    if (const Status gone = found->second.feed->RowsAreGone({rows.begin, rows.end}); !gone.ok()) {
      return RowsLost(partition, gone);
    }
    tasks_.erase(found);
    MILLRACE_ASSIGN_OR_RETURN(const Offset offset, Assign(worker, std::nullopt));
    return input_->Seek(partition, offset);
  }

  void Commit(WorkerId worker, HostedTask& hosted) {
    const auto partition = static_cast<int32_t>(worker);
    const WorkerFeed::Positions positions = hosted.feed->TakePositions();
    if (positions.commit) {
      input_->Commit(partition, {positions.commit->offset, positions.commit->Metadata()});
    }
    if (positions.rows_end) trimmer_->Trim(input_topic_, partition, *positions.rows_end);
    if (positions.weights_end) trimmer_->Trim(answers_->topic(), partition, *positions.weights_end);
  }

  Status Save(WorkerTask& task) {
    if (!store_) return absl::OkStatus();
    WriteBatch batch;
    task.SaveTo(batch);
    return batch.empty() ? absl::OkStatus() : store_->Write(batch);
  }

  // Whether all workers of the job have left, also those of other processes: until then this one
  // takes over from a process that dies.
  StatusOr<bool> JobEnded(SteadyTime now) {
    const auto all = [this](auto predicate) {
      return std::all_of(tasks_.begin(), tasks_.end(),
                         [&](const auto& entry) { return predicate(*entry.second.task); });
    };
    const bool all_left = !tasks_.empty() && all([](const WorkerTask& t) { return t.left(); });
    // A process without partitions, or one that comes after the servers have gone, asks, too.
    const bool stuck = tasks_.empty() || !all([](const WorkerTask& t) { return t.answered(); });
    if (!(all_left || stuck) || now < next_registry_read_) return false;
    next_registry_read_ = now + (all_left ? kRegistryEveryAtTheEnd : kRegistryEvery);
    MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry_.ReadEnded());
    return EveryShardEnded(ended, training_.shards());
  }

  // Shards of a layout that is no more in force answer nothing that brings a worker on. So whoever
  // gets no further looks: soon, then more rarely, since rows may be what is missing.
  StatusOr<bool> HasNextLayout(SteadyTime now) {
    if (!silence_.IsLookDue(now)) return false;
    return IsNextLayoutInForce(registry_, training_.layout());
  }

  Status Close() {
    for (auto& [worker, hosted] : tasks_) {
      Commit(worker, hosted);
      MILLRACE_RETURN_IF_ERROR(Save(*hosted.task));
    }
    if (store_) MILLRACE_RETURN_IF_ERROR(store_->Flush());
    MILLRACE_RETURN_IF_ERROR(sender_->Send(out_));
    // What does not go out now is computed again by whoever gets the partition.
    (void)sender_->Flush(std::chrono::seconds(2));
    tasks_.clear();
    const Status left = input_ ? input_->Close() : absl::OkStatus();
    if (!left.ok()) spdlog::warn("{}", TextOf(left));
    return absl::OkStatus();
  }

  const JobConfig& config_;
  const std::optional<Incarnation>& self_;
  const JobFeatures& features_;
  const JobTraining& training_;
  JobRegistry& registry_;
  RowShape shape_;
  std::unique_ptr<Model> model_;
  const std::atomic<bool>& stop_;
  BrokerRetry broker_retry_;
  const std::string input_topic_;

  Wakeup wakeup_;
  std::unique_ptr<OrderedByteMap> store_;  // buffer schedule only
  std::unique_ptr<EvaluationLog> evaluation_log_;
  std::unique_ptr<RecordSender> sender_;
  std::unique_ptr<PartitionConsumer> ranges_;  // of input-data; reads nothing
  std::unique_ptr<HostedWorkers> hosted_workers_;
  GroupConsumer* input_ = nullptr;             // its rows; null where rows are leased
  std::unique_ptr<LeasedInput> leased_input_;  // else null
  std::unique_ptr<Trimmer> trimmer_;
  GroupConsumer::Handler input_handler_;
  LeasedInput::Handler leased_handler_;

  HostedTasks tasks_;
  std::unique_ptr<AnswerReader> answers_;  // of the tasks
  std::set<WorkerId> rows_deleted_;        // their rows were
  SideBySide threads_;
  std::vector<OutgoingRecord> out_;
  size_t rows_taken_ = 0;  // in this poll
  size_t records_at_once_ = 1;
  WaitingWorkers waiting_{std::chrono::steady_clock::now()};
  bool job_ended_ = false;
  bool has_next_layout_ = false;
  Silence silence_{std::chrono::steady_clock::now()};
  SteadyTime next_save_;
  SteadyTime next_registry_read_;
};

}  // namespace

StatusOr<bool> RunWorkerOfLayout(const JobConfig& config, const JobFeatures& features,
                                 const JobTraining& training, JobRegistry& registry,
                                 const std::optional<Incarnation>& self,
                                 const std::atomic<bool>& stop) {
  WorkerLoop loop(config, features, training, registry, self, stop);
  MILLRACE_RETURN_IF_ERROR(loop.Run());
  return loop.has_next_layout();
}

}  // namespace millrace
