#include "master/master_requests.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "base/printable.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/topic_exists.h"
#include "kafka/broker_retry.h"
#include "kafka/producer.h"
#include "kafka/timeouts.h"
#include "master/plan_reader.h"
#include "messages/master.pb.h"
#include "topics/control_codec.h"
#include "topics/master_topics.h"
#include "topics/process_name.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kMasterAnswers(10);  // or no master runs
constexpr char kNoChange[] = "nothing has changed";
constexpr uint64_t kTicksUntilHeard = 3;  // by then a stop is in the plan, or was overruled

// What a person waits for.
struct Awaited {
  const char* what;       // goes on when nobody waits any more
  const char* otherwise;  // what is so while no master answers, and what to do
  std::chrono::milliseconds between_reads;
};
constexpr Awaited kStop = {
    "the stop",
    ", and its processes, if there are any, run on: start MasterApp on their machine, and stop it "
    "by Ctrl-C",
    seconds(1)};
constexpr char kChangeWaits[] = ": the change waits for the next one. Start MasterApp";
constexpr Awaited kResize = {"the change", kChangeWaits, seconds(1)};
constexpr Awaited kReshard = {"the change", kChangeWaits, std::chrono::milliseconds(200)};
constexpr Awaited kMove = {"the move", ": the move waits for the next one. Start MasterApp",
                           std::chrono::milliseconds(200)};

bool NothingRuns(MasterState::Phase phase) {
  return phase == MasterState::ENDED || phase == MasterState::STOPPED ||
         phase == MasterState::FAILED || phase == MasterState::IDLE;
}

Status Send(const JobConfig& config, ControlRecord record, const BrokerRetry& broker_retry) {
  const std::string topic = MasterTopicName(config.name(), MasterTopic::kControl);
  ProducerOptions options;
  options.client_id = "master-request";
  MILLRACE_ASSIGN_OR_RETURN(const auto producer,
                            KafkaProducer::Create(ToKafkaOptions(config), options, nullptr));
  MILLRACE_RETURN_IF_ERROR(broker_retry.Run([&] { return producer->Prepare({topic}); }));
  record.set_epoch(config.epoch());
  MILLRACE_RETURN_IF_ERROR(producer->Send(topic, 0, std::string_view(), EncodeControl(record)));
  MILLRACE_RETURN_IF_ERROR(broker_retry.Run([&] { return producer->Flush(kBrokerCall); }));
  const std::vector<FailedDelivery> failures = producer->TakeFailures();
  if (failures.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(topic, ": ", failures.front().reason));
}

ControlRecord StopRecord() {
  ControlRecord record;
  record.mutable_stop();
  return record;
}

// Reads the plan until it has what was asked for; `job` is the first reading. Errors: those of
// `has_come`, which says why it will not come; Cancelled when `stop` is set; Unavailable, pending
// (base/error_marks.h), when no master folds what is written.
StatusOr<JobProcesses> WaitFor(
    const Awaited& awaited, const JobConfig& config, JobProcesses job,
    const std::atomic<bool>& stop,
    const std::function<StatusOr<bool>(const JobProcesses& now)>& has_come) {
  int64_t next_offset = job.state.next_offset();
  auto answered = steady_clock::now();
  while (!stop) {
    MILLRACE_ASSIGN_OR_RETURN(const bool is_there, has_come(job));
    if (is_there) return job;
    std::this_thread::sleep_for(awaited.between_reads);
    StatusOr<JobProcesses> read = ReadJobProcesses(config, stop);
    if (absl::IsCancelled(read.status())) break;
    if (IsAway(read.status())) return MarkPending(read.status());
    MILLRACE_ASSIGN_OR_RETURN(job, std::move(read));
    const auto now = steady_clock::now();
    if (job.state.next_offset() != next_offset) answered = now;
    next_offset = job.state.next_offset();
    if (now - answered < kMasterAnswers) continue;
    return MarkPending(absl::UnavailableError(
        absl::StrCat("no MasterApp of the job ", config.name(), " has answered for ",
                     kMasterAnswers.count(), " s", awaited.otherwise)));
  }
  spdlog::info("stopped waiting; {} goes on", awaited.what);
  return absl::CancelledError("stopped");
}

// Whether a master has folded what was sent when its plan was at this tick.
bool HasHeard(const JobProcesses& job, uint64_t sent_at_tick) {
  return job.state.ticks() > sent_at_tick + kTicksUntilHeard;
}

// Whether MasterApp runs WorkerApps, which are given logical workers.
bool GivesWorkers(const JobProcesses& job) {
  return std::ranges::any_of(job.state.plan().groups(),
                             [](const ProcessGroup& group) { return group.logical_workers() > 0; });
}

// Of a job whose plan has no leases.
Status NoLeases(const JobConfig& config, const JobProcesses& job, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  const StatusOr<std::optional<JobTraining>> begun = registry->ReadTraining();
  const bool leases = begun.ok() && *begun && (*begun)->training().sharding() == Training::DYNAMIC;
  const bool is_known = begun.ok() && *begun;
  if (!is_known && !GivesWorkers(job)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "MasterApp of the job ", config.name(),
        " runs no WorkerApps to which it gives logical workers, so it has no number of them that "
        "could be changed. For another number of processes start MasterApp again, with another "
        "--worker-processes"));
  }
  if (leases || !is_known) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job ", config.name(),
                     " has not begun to lease rows (docs/leases.md), so nothing has changed: try "
                     "again when MasterApp status shows its leases"));
  }
  const Training& training = (*begun)->training();
  const bool may_lease = training.model() != Training::EXTERNAL &&
                         training.distribution_strategy() != Training::ALL_REDUCE;
  return absl::FailedPreconditionError(absl::StrCat(
      "the job ", config.name(), " was begun with --sharding static, so the number of its logical ",
      "workers cannot be changed. Start a new job (another --job) with ",
      may_lease ? "--sharding dynamic" : "that --workers"));
}

// `too_late`: what that it has ended means. `else_what`: what that it does not run means.
Status CheckRuns(const std::string& name, const JobProcesses& job, const std::string& too_late,
                 const std::string& else_what = kNoChange) {
  if (job.state.phase() == MasterState::ACTIVE) return absl::OkStatus();
  if (job.state.phase() == MasterState::ENDED) {
    return absl::FailedPreconditionError(absl::StrCat(name, " has ended: ", too_late));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(name, " does not run, so ", else_what, ": start MasterApp first"));
}

// `what`: its workers or shards, of which it will have so many.
Status StillChanges(const std::string& name, uint32_t number, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is still changing to ", number, " ", what,
                   ", so nothing has changed: try again when MasterApp status shows that this is "
                   "done"));
}

// Whether there is something to be changed.
StatusOr<bool> CheckResize(const JobConfig& config, const JobProcesses& job, uint32_t workers,
                           const std::atomic<bool>& stop) {
  const std::string name = absl::StrCat("the job ", config.name());
  MILLRACE_RETURN_IF_ERROR(
      CheckRuns(name, job, "the number of its workers cannot be changed any more"));
  if (!job.leases) return NoLeases(config, job, stop);
  if (workers > job.leases->most_workers) {
    return absl::InvalidArgumentError(absl::StrCat("--workers ", workers, ": ", name,
                                                   " may have at most ", job.leases->most_workers,
                                                   ", as it was begun (MasterApp --max-workers)"));
  }
  if (workers == job.leases->size) return job.leases->is_resizing;
  if (job.state.next_shards() != 0) {
    return StillChanges(name, job.state.next_shards(), "shards");
  }
  if (job.leases->is_over) {
    return absl::FailedPreconditionError(
        absl::StrCat("all rows of ", name, " are leased: it ends with the workers that it has"));
  }
  if (job.leases->is_resizing) return StillChanges(name, job.leases->size, "workers");
  return true;
}

// The process, if it may host the shard.
StatusOr<ProcessState> CheckMove(const JobConfig& config, const JobProcesses& job, uint32_t shard,
                                 const std::string& to) {
  const std::string name = absl::StrCat("the job ", config.name());
  MILLRACE_RETURN_IF_ERROR(CheckRuns(name, job, "its shards cannot be moved any more"));
  const auto& groups = job.state.plan().groups();
  const auto group =
      std::ranges::find_if(groups, [](const ProcessGroup& g) { return g.shards() > 0; });
  if (group == groups.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " has no server processes of MasterApp, so it has no shards to move"));
  }
  const uint32_t shards = job.state.has_layout() ? job.state.layout().shards() : group->shards();
  if (shard >= shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard ", shard, ": ", name, " has shards 0 to ", shards - 1));
  }
  for (const ProcessState& process : job.processes) {
    const bool is_one =
        process.process().group() == group->name() && process.process().rank() < group->count();
    if (!is_one || ToText(process.process()) != to) continue;
    if (process.phase() != ProcessState::ENDED && process.phase() != ProcessState::FAILED) {
      return process;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("--to ", to, ": it does not run any more, so shard ", shard, " stays"));
  }
  return absl::InvalidArgumentError(absl::StrCat("--to ", Printable(to), ": the processes of ",
                                                 name, " that host shards are ", group->name(),
                                                 "-0 to ", group->name(), "-", group->count() - 1));
}

// What the job was begun with, which the plan does not say.
Status CheckMayReshard(const JobConfig& config, const std::atomic<bool>& stop) {
  const std::string name = absl::StrCat("the job ", config.name());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> begun, registry->ReadTraining());
  if (!begun) {
    return absl::FailedPreconditionError(
        absl::StrCat(name,
                     " has not begun to train, so nothing has changed: try again when Watch "
                     "shows that it does"));
  }
  if (begun->group_size() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(name,
                     " has several groups of servers, which have equally many shards from its "
                     "beginning on: their number cannot be changed"));
  }
  return absl::OkStatus();
}

// How many shards the job has now; 0: no process of its master hosts any.
uint32_t ShardsOf(const JobProcesses& job) {
  if (job.state.has_layout()) return job.state.layout().shards();
  for (const ProcessGroup& group : job.state.plan().groups()) {
    if (group.shards() > 0) return group.shards();
  }
  return 0;
}

// Whether there is something to be changed.
StatusOr<bool> CheckReshard(const JobConfig& config, const JobProcesses& job, uint32_t shards,
                            const std::atomic<bool>& stop) {
  const std::string name = absl::StrCat("the job ", config.name());
  MILLRACE_RETURN_IF_ERROR(
      CheckRuns(name, job, "the number of its shards cannot be changed any more"));
  if (ShardsOf(job) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(name,
                     " has no server processes of MasterApp (with --distribution-strategy "
                     "AllReduce there are none), so it has no shards whose number could be "
                     "changed"));
  }
  if (job.state.next_shards() != 0 && job.state.next_shards() != shards) {
    return StillChanges(name, job.state.next_shards(), "shards");
  }
  if (job.state.next_shards() == shards) return true;
  if (ShardsOf(job) == shards) return false;
  if (job.leases && job.leases->is_resizing) {
    return StillChanges(name, job.leases->size, "workers");
  }
  if (job.state.layout().number() + 1 >= kMostLayouts) {
    return absl::FailedPreconditionError(absl::StrCat(name, " has changed its shards ",
                                                      job.state.layout().number(),
                                                      " times, which is as often as a job can"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckMayReshard(config, stop));
  return true;
}

// The topics of the next layout are the job's own: of an earlier job of this name, whose topics
// were not all deleted, the shards would go on with the state.
Status CheckLayoutIsNew(const JobConfig& config, uint32_t number, const std::atomic<bool>& stop) {
  for (const Topic topic : {Topic::kGradients, Topic::kParameters, Topic::kWeights}) {
    const std::string name = TopicName(LayoutName(config.name(), number), topic);
    MILLRACE_ASSIGN_OR_RETURN(const bool is_there, TopicExists(config, name, stop));
    if (!is_there) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the topic ", name,
        " is there already, of an earlier job of this name, and the new shards ",
        "need new ones, so nothing has changed. Delete what ", config.name(), " has of the topics ",
        LayoutName(config.name(), number), ".*, and try again"));
  }
  return absl::OkStatus();
}

bool Hosts(const ProcessState& process, uint32_t shard) {
  return std::ranges::find(process.shards(), shard) != process.shards().end();
}

}  // namespace

StatusOr<JobProcesses> StopJob(const JobConfig& config, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(JobProcesses job, ReadJobProcesses(config, stop));
  if (NothingRuns(job.state.phase())) return job;
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  MILLRACE_RETURN_IF_ERROR(Send(config, StopRecord(), broker_retry));
  uint64_t sent_at_tick = job.state.ticks();
  return WaitFor(kStop, config, std::move(job), stop,
                 [&](const JobProcesses& now) -> StatusOr<bool> {
                   // A master that begins just then overrules it by its plan.
                   if (now.state.phase() == MasterState::ACTIVE && HasHeard(now, sent_at_tick)) {
                     MILLRACE_RETURN_IF_ERROR(Send(config, StopRecord(), broker_retry));
                     sent_at_tick = now.state.ticks();
                   }
                   return NothingRuns(now.state.phase());
                 });
}

StatusOr<JobProcesses> ResizeJob(const JobConfig& config, uint32_t workers,
                                 const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(JobProcesses job, ReadJobProcesses(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const bool changes, CheckResize(config, job, workers, stop));
  if (!changes) return job;
  if (workers != job.leases->size) {
    ControlRecord record;
    record.mutable_lease()->mutable_resize()->set_workers(workers);
    const BrokerRetry broker_retry(stop, config.broker_timeout_s());
    MILLRACE_RETURN_IF_ERROR(Send(config, std::move(record), broker_retry));
  }
  const uint64_t sent_at_tick = job.state.ticks();
  return WaitFor(
      kResize, config, std::move(job), stop, [&](const JobProcesses& now) -> StatusOr<bool> {
        if (now.leases->size == workers && !now.leases->is_resizing) return true;
        if (now.state.phase() == MasterState::ENDED) {
          return absl::FailedPreconditionError(absl::StrCat(
              "the job ", config.name(), " has ended before it had ", workers, " workers"));
        }
        if (now.leases->size == workers) return false;
        if (!HasHeard(now, sent_at_tick)) return false;
        // It was refused: rows have ended, or somebody else was faster.
        MILLRACE_RETURN_IF_ERROR(CheckResize(config, now, workers, stop).status());
        return absl::UnavailableError(
            absl::StrCat("MasterApp of the job ", config.name(), " has not changed the number of ",
                         "workers to ", workers, ", since another command changed it to ",
                         now.leases->size, " meanwhile: try again, or leave it so"));
      });
}

Status CheckShardCount(uint32_t shards) {
  if (shards >= 1 && shards <= kMostShards) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--shards ", shards, ": give 1 to ", kMostShards));
}

StatusOr<JobProcesses> ReshardJob(const JobConfig& config, uint32_t shards,
                                  const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckShardCount(shards));
  MILLRACE_ASSIGN_OR_RETURN(JobProcesses job, ReadJobProcesses(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const bool changes, CheckReshard(config, job, shards, stop));
  if (!changes) return job;
  const uint32_t number = job.state.layout().number() + 1;
  if (job.state.next_shards() != shards) {
    ControlRecord record;
    record.mutable_reshard()->set_number(number);
    record.mutable_reshard()->set_shards(shards);
    MILLRACE_RETURN_IF_ERROR(CheckLayoutIsNew(config, number, stop));
    const BrokerRetry broker_retry(stop, config.broker_timeout_s());
    MILLRACE_RETURN_IF_ERROR(Send(config, std::move(record), broker_retry));
  }
  const uint64_t sent_at_tick = job.state.ticks();
  return WaitFor(
      kReshard, config, std::move(job), stop, [&](const JobProcesses& now) -> StatusOr<bool> {
        if (now.state.layout().number() >= number) return true;
        // (The order is in the plan, and stays there.)
        MILLRACE_RETURN_IF_ERROR(CheckRuns(
            absl::StrCat("the job ", config.name()), now, "it keeps the shards that it had",
            now.state.next_shards() == shards ? "the change waits until it does" : kNoChange));
        if (now.state.next_shards() == shards || !HasHeard(now, sent_at_tick)) return false;
        // It was refused: somebody else was faster.
        MILLRACE_RETURN_IF_ERROR(CheckReshard(config, now, shards, stop).status());
        return absl::UnavailableError(
            absl::StrCat("MasterApp of the job ", config.name(), " has not changed the number of ",
                         "shards to ", shards, ", since another command was faster (it has ",
                         now.state.layout().shards(), "): try again, or leave it so"));
      });
}

StatusOr<JobProcesses> MoveShard(const JobConfig& config, uint32_t shard, const std::string& to,
                                 const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(JobProcesses job, ReadJobProcesses(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const ProcessState taker, CheckMove(config, job, shard, to));
  if (Hosts(taker, shard)) return job;
  ControlRecord record;
  record.mutable_move()->set_shard(shard);
  record.mutable_move()->set_rank(taker.process().rank());
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  MILLRACE_RETURN_IF_ERROR(Send(config, std::move(record), broker_retry));
  const uint64_t sent_at_tick = job.state.ticks();
  return WaitFor(
      kMove, config, std::move(job), stop, [&](const JobProcesses& now) -> StatusOr<bool> {
        // (The order stays in the plan, also when MasterApp ends.)
        if (std::ranges::any_of(now.processes, [&](const ProcessState& process) {
              return ToText(process.process()) == to && Hosts(process, shard);
            })) {
          return true;
        }
        MILLRACE_RETURN_IF_ERROR(CheckMove(config, now, shard, to).status());
        if (!HasHeard(now, sent_at_tick)) return false;
        return absl::UnavailableError(
            absl::StrCat("MasterApp of the job ", config.name(), " has not moved shard ", shard,
                         ": its log says why, or somebody else has moved it since. Try again"));
      });
}

}  // namespace millrace
