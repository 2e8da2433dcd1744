#include "members/member_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/background_worker.h"
#include "base/clock.h"
#include "base/error_marks.h"
#include "base/printable.h"
#include "base/random_number.h"
#include "base/stall_watch.h"
#include "collective/all_gather.h"
#include "collective/ordered_all_reduce.h"
#include "collective/world.h"
#include "job/evaluation_log.h"
#include "job/record_sender.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "members/member_node.h"
#include "members/member_rows.h"
#include "members/same_job.h"
#include "members/state_log.h"
#include "server/class_names.h"
#include "server/server_metrics.h"
#include "tasks/member_task.h"
#include "tasks/task_options.h"
#include "topics/message_codec.h"
#include "topics/row_codec.h"
#include "worker/stalled_process.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

// Members talk at least so often, also while rows are awaited: so each hears of a death.
constexpr milliseconds kExchangeEvery(100);
constexpr milliseconds kMemberRepeatEvery(2000);
constexpr milliseconds kMemberMetricsEvery(250);
constexpr milliseconds kRejoinPause(50);
// To connect to many members, one after the other, takes time.
constexpr milliseconds kLeastStall(90'000);
// A member whose main thread hangs has ended itself by then, so that its connections are closed.
constexpr milliseconds kAfterStall(30'000);
// So long the exchange that is under way may take when this process is to stop.
constexpr milliseconds kExchangeAtStop(5'000);
constexpr std::chrono::seconds kFlushAtStop(2);

class MemberLoop {
 public:
  MemberLoop(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             const MetricPoint::Setup& setup, const MemberCalls& calls, const std::string& about,
             const std::atomic<bool>& stop)
      : config_(config),
        calls_(calls),
        about_(about),
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()),
        point_settings_{training, RowShapeFrom(features).classes, ClassNamesToShow(features.spec()),
                        setup},
        model_(MakeModel(features, training.training())),
        task_(SetupOf(config, features, training, *model_)) {}

  Status Run() {
    Status status = Open();
    if (status.ok()) status = Loop();
    const bool is_stopped = stop_ && (status.ok() || absl::IsCancelled(status));
    if (node_ == nullptr && !job_ended_) return status;
    if (is_stopped && !job_ended_) StopCleanly();
    (void)rows_->Close(status.ok() || absl::IsCancelled(status));
    if (node_ != nullptr) node_->Leave();
    if (job_ended_) {
      spdlog::info("the job has ended: every worker has left");
      return own_end_ ? ended_with_ : absl::OkStatus();
    }
    if (!is_stopped) return status;
    spdlog::info(
        "stopped. The job goes on when members run: from the state of one that runs, or "
        "from the last checkpoint");
    return absl::CancelledError("stopped");
  }

 private:
  static MemberTask::Setup SetupOf(const JobConfig& config, const JobFeatures& features,
                                   const JobTraining& training, const Model& model) {
    MemberTask::Setup setup;
    setup.server = MakeServerOptions(features, training, ShardId(0));
    setup.shape = RowShapeFrom(features);
    setup.model = &model;
    setup.attempt = RandomNumber() >> 20;
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
    MILLRACE_ASSIGN_OR_RETURN(
        rows_, MemberRows::Create(config_, task_, broker_retry_, &wakeup_, [this] { Progress(); }));
    if (config_.worker().has_evaluation_log()) {
      MILLRACE_ASSIGN_OR_RETURN(evaluation_log_,
                                EvaluationLog::Open(config_.worker().evaluation_log(), true));
    }
    MemberNodeOptions node;
    node.master = config_.worker().master_address();
    node.address = config_.worker().listen_host();
    node.on_wait = [this] { Progress(); };
    node.has_ended = calls_.has_ended;
    StatusOr<std::unique_ptr<MemberNode>> joined = MemberNode::Join(node, stop_);
    if (absl::IsOutOfRange(joined.status())) {
      job_ended_ = true;
      return absl::OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(node_, std::move(joined));
    return absl::OkStatus();
  }

  void Progress() {
    if (watch_) watch_->Progress();
  }

  // While it waits for the others, who may need long to compute their batches, as long as they
  // live.
  Status AwaitOthers() {
    Progress();
    if (node_->HasLostMembers()) {
      return absl::UnavailableError("MasterApp takes a member of this world for dead");
    }
    if (!stop_) return absl::OkStatus();
    const Time now = std::chrono::steady_clock::now();
    if (!stop_seen_) stop_seen_ = now;
    if (now - *stop_seen_ < kExchangeAtStop) return absl::OkStatus();
    return absl::CancelledError("stopped while others computed");
  }

  // One world after the other.
  Status Loop() {
    MeshOptions mesh;
    mesh.host = config_.worker().listen_host();
    const std::chrono::duration<double> given(config_.worker().stall_timeout_s());
    const milliseconds limit = std::max(kLeastStall, std::chrono::ceil<milliseconds>(given));
    watch_.emplace(limit, [seconds = std::chrono::duration<double>(limit).count()] {
      EndStalledProcess(seconds);
    });
    mesh.timeout = limit + kAfterStall;
    mesh.on_wait = [this] { return AwaitOthers(); };
    while (!stop_ && !job_ended_) {
      StatusOr<World> world = World::Join(
          mesh, node_->instance(), [this](const std::string& value) { return node_->Pass(value); });
      Progress();
      const Status status = world.ok() ? TrainIn(*world) : world.status();
      if (status.ok()) continue;
      if (node_->job_has_ended()) {
        job_ended_ = true;
        break;
      }
      // Of a world that is whole it is the broker's, which the next world does not mend.
      const bool is_over = absl::IsUnavailable(status) && !(world.ok() && IsWhole(*world));
      if (!is_over) return status;
      spdlog::info("this world is over, and what was not finished is done again: {}",
                   TextOf(status));
      wakeup_.WaitFor(kRejoinPause);
    }
    return absl::OkStatus();
  }

  static bool IsWhole(World& world) { return world.mesh().broken().ok(); }
  // All others learn it at once.
  static Status Leave(World& world, const Status& why) {
    world.mesh().Break(why);
    return why;
  }

  // ---- a world ----

  // Until the job has ended, somebody new waits for a world, or this one fails.
  Status TrainIn(World& world) {
    all_reduce_.reset();
    MILLRACE_RETURN_IF_ERROR(CheckStrangers(world));
    MILLRACE_RETURN_IF_ERROR(AgreeOnState(world));
    MILLRACE_ASSIGN_OR_RETURN(const std::set<WorkerId> mine,
                              task_.Begin(world.position(), world.size()));
    rows_->Read(mine);
    spdlog::info("world {}: member {} of {}, from update {}; hosts {} workers", world.id(),
                 world.position(), world.size(), task_.progress(), mine.size());
    while (!stop_ && !job_ended_) {
      Progress();
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

  // Before anything else is said.
  Status CheckStrangers(World& world) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> about, AllGather(world, about_));
    const Status same = CheckSameJob(about, world.position());
    if (same.ok()) return same;
    (void)AllGather(world, "");  // until all know
    world.mesh().Break(absl::UnavailableError("a member belongs to another job or version"));
    return same;
  }

  // That of the furthest, which the last checkpoint may be, should all others have died.
  Status AgreeOnState(World& world) {
    if (world.position() != 0) {
      DropLog();  // member 0 fences it
      if (ends_ && ends_->idle()) ends_.reset();
      own_end_ = false;
    } else if (!log_ && !ends_) {
      MILLRACE_RETURN_IF_ERROR(OpenLog());
      MILLRACE_ASSIGN_OR_RETURN(durable_, task_.LoadIfFurther(log_->copy()));
    }
    MILLRACE_ASSIGN_OR_RETURN(
        const std::optional<std::string> state,
        FurthestState(world, task_.progress(), [this] { return task_.EncodeState(); }));
    return state ? task_.TakeState(*state) : absl::OkStatus();
  }

  // In the background: a broker that is away is no stall of this thread.
  Status OpenLog() {
    StatusOr<std::unique_ptr<StateLog>> opened = absl::CancelledError("stopped");
    BackgroundWorker opens([this] { wakeup_.Notify(); });
    opens.Post("open", [&] { opened = StateLog::Open(config_, &wakeup_, stop_); });
    while (!opens.idle()) {
      Progress();
      wakeup_.WaitFor(kExchangeEvery);
    }
    MILLRACE_RETURN_IF_ERROR(opened.status());
    log_ = *std::move(opened);
    return absl::OkStatus();
  }

  // In the background: a checkpoint that is under way is tried until it is refused.
  void DropLog() {
    if (!log_) return;
    std::shared_ptr<StateLog> old = std::move(log_);
    dropped_.Post(std::to_string(++dropped_logs_),
                  [last = std::move(old)]() mutable { last.reset(); });
  }

  Status AwaitContributions() {
    const Time until = std::chrono::steady_clock::now() + kExchangeEvery;
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, rows_->Poll());
      Progress();
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
    if (world.position() == 0) MILLRACE_RETURN_IF_ERROR(AddAsMemberZero(world, own));
    MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, SerializeMessage(own));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> said, AllGather(world, bytes));
    std::vector<MemberNews> all(said.size());
    for (size_t i = 0; i < said.size(); ++i) {
      if (ParseMessage(said[i], all[i]).ok()) continue;
      return absl::DataLossError("member " + std::to_string(i) +
                                 " has sent a message that cannot be read, although it runs this "
                                 "version: the message is damaged");
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

  Status AddAsMemberZero(World& world, MemberNews& news) {
    const Time now = std::chrono::steady_clock::now();
    if (log_) {
      StatusOr<std::optional<uint64_t>> durable = log_->Finished(now);
      if (IsFenced(durable.status())) {
        DropLog();
        return Leave(world, absl::UnavailableError("another member writes the checkpoints now"));
      }
      MILLRACE_RETURN_IF_ERROR(durable.status());
      if (*durable) durable_ = **durable;
      const bool is_behind = task_.progress() > durable_;
      const bool may_wait = !task_.all_left() && !log_->IsDue(now);
      if (is_behind && !may_wait && !log_->busy()) news.set_begins_checkpoint(true);
    }
    news.set_durable(durable_);
    if (ends_ && ends_->idle()) {
      MILLRACE_RETURN_IF_ERROR(TakeEnd(world));
      news.set_job_ended(own_end_);
      if (!ended_with_.ok()) news.set_end_error(std::string(TextOf(ended_with_)));
    }
    return absl::OkStatus();
  }

  Status FollowMemberZero(World& world, const MemberNews& zero) {
    rows_->Commit(task_.FollowCheckpoints(zero));
    if (zero.begins_checkpoint() && world.position() == 0) {
      MILLRACE_RETURN_IF_ERROR(BeginCheckpoint());
    }
    job_ended_ = zero.job_ended();
    if (!zero.end_error().empty() && world.position() != 0) {
      spdlog::error(
          "member 0 could not write all files at the end of the job: {}. Its log says so, too; it "
          "tries again when it is started again",
          Printable(zero.end_error()));
    }
    const bool begins_end =
        world.position() == 0 && task_.all_left() && !ends_ && log_ && durable_ == task_.progress();
    if (begins_end) BeginEnd();
    return absl::OkStatus();
  }

  Status BeginCheckpoint() {
    MILLRACE_ASSIGN_OR_RETURN(Checkpoint checkpoint, task_.MakeCheckpoint());
    log_->Begin(std::move(checkpoint), task_.progress(), std::chrono::steady_clock::now());
    return absl::OkStatus();
  }

  void BeginEnd() {
    spdlog::info(
        "every worker has left, and the state is saved: this member evaluates the model, and "
        "writes the job's last files");
    log_.reset();  // the end opens it as a server does
    ends_ = std::make_unique<BackgroundWorker>([this] { wakeup_.Notify(); });
    ends_->Post("end", [this] { ended_with_ = calls_.end_job(); });
  }

  // Of what is only written at the end, an error is told, and nobody can mend it by training on.
  Status TakeEnd(World& world) {
    if (absl::IsCancelled(ended_with_) && stop_) return ended_with_;
    if (IsFenced(ended_with_)) {
      ends_.reset();
      return Leave(
          world, absl::UnavailableError("another member has begun to write the job's last files"));
    }
    own_end_ = true;
    return absl::OkStatus();
  }

  // Without the point a clean stop looks like a crash to those who watch.
  void StopCleanly() {
    if (!log_) return;
    SaveAtStop();
    std::vector<OutgoingRecord> points;
    points.push_back(
        StoppedPoint(task_.shard().processor(), ShardId(0), Unsaved(), point_settings_));
    (void)sender_->Send(points);
    (void)sender_->Flush(kFlushAtStop);
  }

  // The state of a member that is stopped may be the last that there is.
  void SaveAtStop() {
    StatusOr<std::optional<uint64_t>> durable = log_->Wait();
    if (durable.ok() && *durable) durable_ = **durable;
    Status status = durable.status();
    if (status.ok() && task_.progress() <= durable_) return;
    if (status.ok()) {
      task_.CheckpointDurable(durable_);
      status = BeginCheckpoint();
    }
    if (status.ok()) {
      durable = log_->Wait();
      status = durable.status();
    }
    if (status.ok() && *durable) durable_ = **durable;
    if (task_.progress() <= durable_) return;
    spdlog::warn(
        "the last checkpoint was not written{}{}: if no other member runs, {} updates are computed "
        "again",
        status.ok() ? "" : ": ", TextOf(status), Unsaved());
  }

  uint64_t Unsaved() const { return task_.progress() - std::min(durable_, task_.progress()); }

  Status PublishProgress(World& world) {
    const Time now = std::chrono::steady_clock::now();
    if (world.position() != 0 || ends_ || now < next_metrics_) return absl::OkStatus();
    next_metrics_ = now + kMemberMetricsEvery;
    std::vector<OutgoingRecord> points;
    points.push_back(
        ProgressPoint(task_.shard().processor(), ShardId(0), Unsaved(), point_settings_));
    (void)sender_->DeliveryFailed();  // which it logs; the next point says more
    return sender_->Send(points);
  }

  const JobConfig& config_;
  const MemberCalls& calls_;
  const std::string& about_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  const PointSettings point_settings_;
  const std::unique_ptr<Model> model_;

  std::optional<StallWatch> watch_;  // ends the process also when what follows cannot be ended
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
  std::optional<Time> stop_seen_;

  std::unique_ptr<StateLog> log_;  // of member 0, until the end begins
  uint64_t durable_ = 0;           // the progress of the newest checkpoint that it knows of
  bool job_ended_ = false;
  Status ended_with_ = absl::OkStatus();  // that of ends_, until it is idle
  bool own_end_ = false;                  // ended_with_ is the job's
  uint64_t dropped_logs_ = 0;
  BackgroundWorker dropped_;                // ends them
  std::unique_ptr<BackgroundWorker> ends_;  // last: it uses the above
};

}  // namespace

Status RunMember(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const MetricPoint::Setup& setup, const MemberCalls& calls,
                 const std::string& about, const std::atomic<bool>& stop) {
  MemberLoop loop(config, features, training, setup, calls, about, stop);
  return loop.Run();
}

}  // namespace millrace
