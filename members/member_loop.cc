#include "members/member_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/background_worker.h"
#include "base/clock.h"
#include "base/error_marks.h"
#include "collective/all_gather.h"
#include "collective/ordered_all_reduce.h"
#include "collective/world.h"
#include "job/evaluation_log.h"
#include "job/record_sender.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "members/member_node.h"
#include "members/member_rows.h"
#include "members/state_log.h"
#include "server/class_names.h"
#include "server/server_metrics.h"
#include "tasks/member_task.h"
#include "tasks/task_options.h"
#include "topics/message_codec.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

// Members talk at least so often, also while rows are awaited: so each hears of a death.
constexpr milliseconds kExchangeEvery(100);
constexpr milliseconds kMemberRepeatEvery(2000);
constexpr milliseconds kMemberMetricsEvery(250);
constexpr milliseconds kRejoinPause(50);

class MemberLoop {
 public:
  MemberLoop(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             const MetricPoint::Setup& setup, const EndJob& end_job, const std::atomic<bool>& stop)
      : config_(config),
        end_job_(end_job),
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()),
        point_settings_{training, RowShapeFrom(features).classes, ClassNamesToShow(features.spec()),
                        setup},
        model_(MakeModel(features, training.training())),
        task_(SetupOf(config, features, training, *model_)) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(Open());
    Status status = Loop();
    if (job_ended_ || stop_) SaveAtStop();
    (void)rows_->Close(status.ok() || absl::IsCancelled(status));
    node_->Leave();
    if (job_ended_) {
      spdlog::info("the job has ended: every worker has left");
      return ended_with_;
    }
    if (!status.ok() && !(stop_ && absl::IsCancelled(status))) return status;
    spdlog::info(
        "stopped. The job goes on when members run: from the state of one that runs, or "
        "from the last checkpoint");
    return absl::CancelledError("stopped");
  }

 private:
  static MemberTask::Setup SetupOf(const JobConfig& config, const JobFeatures& features,
                                   const JobTraining& training, const Model& model) {
    std::random_device random;
    MemberTask::Setup setup;
    setup.server = MakeServerOptions(features, training, ShardId(0));
    setup.shape = RowShapeFrom(features);
    setup.model = &model;
    setup.attempt = ((uint64_t{random()} << 32) | random()) >> 20;
    const bool evaluates = config.worker().has_evaluation_log();
    setup.worker = [&features, &training, evaluates](WorkerId worker) {
      WorkerOptions options = MakeWorkerOptions(features, training, worker);
      options.evaluate_batches = evaluates;
      return options;
    };
    return setup;
  }

  Status Open() {
    MILLRACE_ASSIGN_OR_RETURN(sender_, RecordSender::Create(config_, "member", {Topic::kMetrics},
                                                            broker_retry_, &wakeup_));
    MILLRACE_ASSIGN_OR_RETURN(rows_,
                              MemberRows::Create(config_, task_, broker_retry_, &wakeup_, [] {}));
    if (config_.worker().has_evaluation_log()) {
      MILLRACE_ASSIGN_OR_RETURN(evaluation_log_,
                                EvaluationLog::Open(config_.worker().evaluation_log(), true));
    }
    MILLRACE_ASSIGN_OR_RETURN(
        node_, MemberNode::Join({config_.worker().master_address(), config_.worker().listen_host()},
                                stop_));
    return absl::OkStatus();
  }

  // One world after the other.
  Status Loop() {
    MeshOptions mesh;
    mesh.host = config_.worker().listen_host();
    while (!stop_ && !job_ended_) {
      StatusOr<World> world = World::Join(
          mesh, node_->instance(), [this](const std::string& value) { return node_->Pass(value); });
      const Status status = world.ok() ? TrainIn(*world) : world.status();
      if (status.ok()) continue;
      if (!absl::IsUnavailable(status)) return status;
      spdlog::info("this world is over, and what was not finished is done again: {}",
                   TextOf(status));
      wakeup_.WaitFor(kRejoinPause);
    }
    return absl::OkStatus();
  }

  // ---- a world ----

  // Until the job has ended, somebody new waits for a world, or this one fails.
  Status TrainIn(World& world) {
    all_reduce_.reset();
    MILLRACE_RETURN_IF_ERROR(AgreeOnState(world));
    MILLRACE_ASSIGN_OR_RETURN(const std::set<WorkerId> mine,
                              task_.Begin(world.position(), world.size()));
    rows_->Read(mine);
    spdlog::info("world {}: member {} of {}, from update {}; hosts {} workers", world.id(),
                 world.position(), world.size(), task_.progress(), mine.size());
    while (!stop_ && !job_ended_) {
      MILLRACE_RETURN_IF_ERROR(AwaitContributions());
      MILLRACE_ASSIGN_OR_RETURN(const std::vector<MemberNews> all, Exchange(world));
      MILLRACE_RETURN_IF_ERROR(FollowMemberZero(world, all.front()));
      if (job_ended_) break;
      const auto is_new = [](const MemberNews& news) { return news.has_newcomers(); };
      if (std::ranges::any_of(all, is_new)) return absl::OkStatus();
      MILLRACE_RETURN_IF_ERROR(TryRound(world, all));
      MILLRACE_RETURN_IF_ERROR(PublishProgress(world));
    }
    return absl::OkStatus();
  }

  // That of the furthest, which the last checkpoint may be, should all others have died.
  Status AgreeOnState(World& world) {
    if (world.position() != 0) {
      log_.reset();  // member 0 fences it
      if (ends_ && ends_->idle()) ends_.reset();
    } else if (!log_ && !ends_) {
      MILLRACE_ASSIGN_OR_RETURN(log_, StateLog::Open(config_, &wakeup_, stop_));
      MILLRACE_RETURN_IF_ERROR(task_.LoadIfFurther(log_->copy()));
      durable_ = 0;
    }
    MILLRACE_ASSIGN_OR_RETURN(
        const std::optional<std::string> state,
        FurthestState(world, task_.progress(), [this] { return task_.EncodeState(); }));
    return state ? task_.TakeState(*state) : absl::OkStatus();
  }

  Status AwaitContributions() {
    const Time until = std::chrono::steady_clock::now() + kExchangeEvery;
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, rows_->Poll());
      WriteEvaluations();
      const Time now = std::chrono::steady_clock::now();
      if (stop_ || task_.ready() || now >= until) break;
      if (events > 0) continue;
      wakeup_.WaitFor(std::chrono::ceil<milliseconds>(until - now));
    }
    const Time now = std::chrono::steady_clock::now();
    if (task_.ready() || task_.all_left()) {
      next_repeat_ = now + kMemberRepeatEvery;
    } else if (now >= next_repeat_) {
      next_repeat_ = now + kMemberRepeatEvery;
      return task_.Repeat();
    }
    return absl::OkStatus();
  }

  void WriteEvaluations() {
    if (!evaluation_log_) return;
    for (const auto& [worker, e] : task_.TakeEvaluations()) {
      evaluation_log_->Write(NowMs(), worker, e.clock, e.figures, e.rows_seen);
    }
  }

  StatusOr<std::vector<MemberNews>> Exchange(World& world) {
    MemberNews own = task_.News();
    own.set_has_newcomers(node_->HasNewcomers());
    if (world.position() == 0) MILLRACE_RETURN_IF_ERROR(AddAsMemberZero(own));
    MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, SerializeMessage(own));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> said, AllGather(world, bytes));
    std::vector<MemberNews> all(said.size());
    for (size_t i = 0; i < said.size(); ++i) {
      if (ParseMessage(said[i], all[i]).ok()) continue;
      return absl::DataLossError("member " + std::to_string(i) +
                                 " has said what cannot be read: another version?");
    }
    return all;
  }

  Status TryRound(World& world, const std::vector<MemberNews>& all) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<ReplicatedShard::Round> round, task_.ReadRound(all));
    if (!round) return absl::OkStatus();
    if (!round->summed.empty()) {
      std::vector<uint32_t> owners;
      std::vector<Contribution> own;
      for (const WorkerId worker : round->summed) {
        const auto index = static_cast<uint32_t>(owners.size());
        owners.push_back(uint32_t{worker} % world.size());
        if (owners.back() == world.position()) own.push_back({index, task_.ValuesOf(worker)});
      }
      if (!all_reduce_ || owners != owners_) {
        owners_ = owners;
        sum_.resize(task_.value_count());
        all_reduce_.emplace(world, std::move(owners), sum_.size());
      }
      MILLRACE_RETURN_IF_ERROR(all_reduce_->Run(own, sum_));
    }
    return task_.FinishRound(*std::move(round), sum_);
  }

  // ---- checkpoints, and the end, which member 0 makes ----

  Status AddAsMemberZero(MemberNews& news) {
    const Time now = std::chrono::steady_clock::now();
    if (log_) {
      StatusOr<std::optional<uint64_t>> durable = log_->Finished(now);
      if (IsFenced(durable.status())) {
        log_.reset();
        return absl::UnavailableError("another member makes the checkpoints by now");
      }
      MILLRACE_RETURN_IF_ERROR(durable.status());
      if (*durable) durable_ = **durable;
      const bool is_behind = task_.progress() > durable_;
      const bool may_wait = !task_.all_left() && !log_->IsDue(now);
      if (is_behind && !may_wait && !log_->busy()) news.set_begins_checkpoint(true);
    }
    news.set_durable(durable_);
    if (ends_ && ends_->idle()) {
      MILLRACE_RETURN_IF_ERROR(TakeEnd());
      news.set_job_ended(job_ended_);
    }
    return absl::OkStatus();
  }

  Status FollowMemberZero(World& world, const MemberNews& zero) {
    if (zero.begins_checkpoint()) {
      task_.NotePositions();
      if (world.position() == 0) {
        MILLRACE_ASSIGN_OR_RETURN(Checkpoint checkpoint, task_.shard().MakeCheckpoint());
        log_->Begin(std::move(checkpoint), task_.progress(), std::chrono::steady_clock::now());
      }
    }
    if (zero.durable() > 0) {
      task_.CheckpointDurable(zero.durable());
      rows_->Commit(task_.TakePositions(zero.durable()));
    }
    job_ended_ = zero.job_ended();
    const bool begins_end =
        world.position() == 0 && task_.all_left() && !ends_ && log_ && durable_ == task_.progress();
    if (begins_end) BeginEnd();
    return absl::OkStatus();
  }

  void BeginEnd() {
    spdlog::info("every worker has left, and the state is saved: the job is brought to its end");
    log_.reset();  // the end opens it as a server does
    ends_ = std::make_unique<BackgroundWorker>([this] { wakeup_.Notify(); });
    ends_->Post("end", [this] { ended_with_ = end_job_(); });
  }

  // Of what is only written at the end, an error is told, and nobody can mend it by training on.
  Status TakeEnd() {
    if (absl::IsCancelled(ended_with_) && stop_) return ended_with_;
    if (IsFenced(ended_with_)) {
      ends_.reset();
      return absl::UnavailableError("another member has begun with the end of the job");
    }
    job_ended_ = true;
    return absl::OkStatus();
  }

  // The state of a member that is stopped may be the last that there is.
  void SaveAtStop() {
    if (!log_ || job_ended_) return;
    StatusOr<std::optional<uint64_t>> durable = log_->Wait();
    if (durable.ok() && *durable) durable_ = **durable;
    StatusOr<Checkpoint> checkpoint = task_.shard().MakeCheckpoint();
    if (!durable.ok() || !checkpoint.ok() || task_.progress() <= durable_) return;
    log_->Begin(*std::move(checkpoint), task_.progress(), std::chrono::steady_clock::now());
    durable = log_->Wait();
    if (!durable.ok())
      spdlog::warn("the last checkpoint was not written: {}", TextOf(durable.status()));
  }

  Status PublishProgress(World& world) {
    const Time now = std::chrono::steady_clock::now();
    if (world.position() != 0 || ends_ || now < next_metrics_) return absl::OkStatus();
    next_metrics_ = now + kMemberMetricsEvery;
    std::vector<OutgoingRecord> points;
    points.push_back(ProgressPoint(task_.shard().processor(), ShardId(0),
                                   task_.progress() - std::min(durable_, task_.progress()),
                                   point_settings_));
    return sender_->Send(points);
  }

  const JobConfig& config_;
  const EndJob& end_job_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  const PointSettings point_settings_;
  const std::unique_ptr<Model> model_;

  Wakeup wakeup_;
  MemberTask task_;
  std::unique_ptr<RecordSender> sender_;
  std::unique_ptr<MemberRows> rows_;
  std::unique_ptr<EvaluationLog> evaluation_log_;
  std::unique_ptr<MemberNode> node_;
  std::optional<OrderedAllReduce> all_reduce_;  // of the present world, for these owners:
  std::vector<uint32_t> owners_;
  std::vector<float> sum_;
  Time next_repeat_;
  Time next_metrics_;

  std::unique_ptr<StateLog> log_;  // of member 0, until the end begins
  uint64_t durable_ = 0;           // the progress of the newest checkpoint that it knows of
  bool job_ended_ = false;
  Status ended_with_ = absl::OkStatus();
  std::unique_ptr<BackgroundWorker> ends_;  // last: it uses the above
};

}  // namespace

Status RunMember(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const MetricPoint::Setup& setup, const EndJob& end_job,
                 const std::atomic<bool>& stop) {
  MemberLoop loop(config, features, training, setup, end_job, stop);
  return loop.Run();
}

}  // namespace millrace
