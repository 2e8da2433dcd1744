// MasterApp: starts the processes of a job, and starts again those that die.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/all_reduce_checks.h"
#include "apps/as_begun.h"
#include "apps/job_flags.h"
#include "apps/kubernetes_flags.h"
#include "apps/master_commands.h"
#include "apps/master_flags.h"
#include "apps/master_topology.h"
#include "apps/program.h"
#include "base/error_marks.h"
#include "base/hash.h"
#include "base/host_and_port.h"
#include "job/begun_job.h"
#include "job/stop_signal.h"
#include "launcher/kubernetes/kubernetes_launcher.h"
#include "launcher/local_launcher.h"
#include "launcher/run_folder.h"
#include "master/job_files.h"
#include "master/job_processes.h"
#include "master/job_view.h"
#include "master/master_log.h"
#include "master/master_loop.h"
#include "master/plan_reader.h"
#include "tasks/parameter_options.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr char kDescription[] =
    "Millrace MasterApp: runs the whole of a job, on this machine or in a Kubernetes cluster. It\n"
    "starts ServerApp, WorkerApp and CsvProducer, starts again those that die, and ends with the\n"
    "job. Each decision is in Kafka before it is carried out: MasterApp itself may be killed, and\n"
    "the next one continues. Its commands (status, stop, resize, move, reshard) are at the end.";

constexpr char kFooter[] =
    "Commands\n"
    "  MasterApp [FLAGS]          run the job\n"
    "  MasterApp status [FLAGS]   show its processes, what each is doing and how it ended last\n"
    "  MasterApp stop [FLAGS]     stop its processes, from any machine that reaches Kafka\n"
    "  MasterApp resize [FLAGS]   change the number of its logical workers while it trains\n"
    "  MasterApp move [FLAGS]     have another process host a shard while it trains\n"
    "  MasterApp reshard [FLAGS]  change the number of its shards while it trains\n"
    "\n"
    "Examples\n"
    "  MasterApp --job flights --input flights.csv --label late --numeric distance,temp \\\n"
    "            --categorical carrier,dest --weights-file weights.npy\n"
    "  MasterApp --config flights.textproto --shards 2 --worker-processes 4\n"
    "  MasterApp --config flights.textproto --distribution-strategy AllReduce \\\n"
    "            --master-address 127.0.0.1:50001\n"
    "  MasterApp --config flights.textproto --topology topology.textproto\n"
    "  MasterApp --job late --numeric temp --label late     without --input: TopicSource sends "
    "rows\n"
    "  MasterApp --job mine --server-processes 0 --worker-processes 3 \\\n"
    "            --worker-command 'python3 train.py --rank {rank}'\n"
    "  MasterApp --job mine --server-processes 0 --worker-processes 3 \\\n"
    "            --master-address 127.0.0.1:50001 --worker-command \\\n"
    "            'env DLROVER_MASTER_ADDR=127.0.0.1:50001 WORKER_ID={rank} python3 train.py'\n"
    "  MasterApp --job mine --server-processes 0 --worker-processes 0 \\\n"
    "            --master-address 127.0.0.1:50001     tasks alone, until it is stopped\n"
    "  MasterApp --job flights --launcher kubernetes --pod-template /etc/millrace/{group}.json\n"
    "\n"
    "ServerApp, WorkerApp and CsvProducer get their flags from MasterApp (ServerApp --help and so\n"
    "on say more). Started again with other flags, MasterApp restarts those processes that the\n"
    "changed flags concern; the others run on.\n"
    "Ctrl-C and SIGTERM stop all processes in an orderly way: workers first, servers last. After\n"
    "kill -9 they run on, and the next MasterApp takes care of them. A process that was killed is\n"
    "started again at once, one that has failed within a second, then after 2, 4 .. 32 seconds.\n"
    "\n"
    "Exit codes: 0 the job has ended; 1 an error, or the job has failed; 2 wrong usage; 4 another\n"
    "MasterApp has taken over; 130 stopped by Ctrl-C, SIGTERM or MasterApp stop: its processes "
    "are\n"
    "stopped, with everything saved, and the job goes on when MasterApp is started again. (After "
    "a\n"
    "second Ctrl-C, or one before it had taken the job over, processes may still run: see\n"
    "MasterApp status.)";

constexpr uint64_t kTaskTimeoutS = 1800;
constexpr uint64_t kNodeTimeoutS = 30;
// WorkerApps give two signs a second, on a thread of their own; while one is not yet taken for dead
// the others cannot train.
constexpr uint64_t kMemberTimeoutS = 10;

// ---- what is to run ----

StatusOr<std::string> RunDir(const std::string& flag, const JobConfig& config) {
  const fs::path path = flag.empty() ? fs::path("millrace-data") / config.name() : fs::path(flag);
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (error) return absl::FailedPreconditionError(absl::StrCat("--run-dir: ", error.message()));
  std::string text = absolute.string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// ServerApp and the others stand beside this program.
StatusOr<std::string> ProgramDir() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) return self.parent_path().string();
  return absl::UnavailableError("/proc/self/exe cannot be read: " + error.message());
}

// A program without a folder is looked for in PATH, as a shell does.
StatusOr<std::string> FoundInPath(const std::string& program, const char* flag) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error) return absl::FailedPreconditionError("the current folder: " + error.message());
  if (program.find('/') != std::string::npos) return (here / program).string();
  const char* const path = std::getenv("PATH");
  for (const std::string& folder :
       std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    const fs::path candidate = here / folder / program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return absl::NotFoundError(absl::StrCat(flag, ": there is no program ", program, " in PATH"));
}

// The words of the flag's command; none: it was not given. A program that another machine is to run
// is looked for there.
StatusOr<std::vector<std::string>> WordsOf(const std::string& command, const char* flag,
                                           const MasterFlags& flags) {
  if (command.empty()) return std::vector<std::string>();
  StatusOr<std::vector<std::string>> words = CommandWords(command);
  if (!words.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", words.status().message()));
  }
  if (flags.launcher == kKubernetesLauncher) return words;
  MILLRACE_ASSIGN_OR_RETURN(words->front(), FoundInPath(words->front(), flag));
  return words;
}

Status AddCommands(const MasterFlags& flags, JobProcessesOptions& options) {
  if (!flags.worker_command.empty() && flags.worker_processes == 0) {
    return absl::InvalidArgumentError(
        "--worker-command has no effect with --worker-processes 0: give 1 or more, or leave it "
        "out");
  }
  MILLRACE_ASSIGN_OR_RETURN(options.worker_command,
                            WordsOf(flags.worker_command, "--worker-command", flags));
  MILLRACE_ASSIGN_OR_RETURN(options.end_command,
                            WordsOf(flags.end_command, "--end-command", flags));
  if (flags.server_program.empty()) return absl::OkStatus();
  if (options.server_processes == 0) {
    return absl::InvalidArgumentError(
        "--server-program has no effect where MasterApp starts no servers: leave it out");
  }
  options.server_program = flags.server_program;
  if (flags.launcher == kKubernetesLauncher) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(options.server_program,
                            FoundInPath(flags.server_program, "--server-program"));
  return absl::OkStatus();
}

Status CheckFile(const std::string& path, const char* flag) {
  std::error_code error;
  if (path.empty() || fs::exists(path, error)) return absl::OkStatus();
  const fs::path here = fs::current_path(error);
  const bool is_relative = !error && fs::path(path).is_relative();
  return absl::NotFoundError(absl::StrCat(flag, ": there is no file ", path,
                                          is_relative ? " in the folder " + here.string() : ""));
}

Status CheckFiles(const JobConfig& config, const MasterFlags& flags) {
  if (config.producer().input() == "-") {
    return absl::InvalidArgumentError(
        "--input -: a process that may be started again cannot read standard input; give a file, "
        "or leave --input out and start CsvProducer by hand");
  }
  if (flags.launcher == kKubernetesLauncher) return absl::OkStatus();  // they are in the pods
  MILLRACE_RETURN_IF_ERROR(CheckFile(config.producer().input(), "--input"));
  return CheckFile(config.server().test_file(), "--test");
}

Status CheckLauncher(const MasterFlags& flags) {
  if (flags.launcher == kLocalLauncher && flags.has_kubernetes_flags) {
    return absl::InvalidArgumentError(
        "--image, --pod-template and the flags --kubernetes-... need --launcher kubernetes");
  }
  if (flags.launcher == kKubernetesLauncher && !flags.run_dir.empty()) {
    return absl::InvalidArgumentError(
        "--run-dir is that of processes on this machine; pods have their data in volumes: see "
        "--pod-template");
  }
  return absl::OkStatus();
}

// WorkerApps that have the weights find each other by this program.
Status CheckStrategy(const JobConfig& config, const MasterFlags& flags) {
  if (!TrainsByAllReduce(config.training())) return absl::OkStatus();
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError("--distribution-strategy AllReduce: " + what);
  };
  if (flags.server_processes.value_or(0) > 0) {
    return wrong("such a job has no servers; leave out --server-processes");
  }
  if (!flags.worker_command.empty()) {
    return wrong(
        "it is how WorkerApps train, and --worker-command runs another program: leave one of the "
        "two out (docs/all-reduce.md says how other trainers can use all-reduce)");
  }
  if (flags.launcher == kKubernetesLauncher) {
    return wrong(
        "pods cannot train by all-reduce yet; leave out --launcher kubernetes, or train with "
        "servers");
  }
  if (flags.master_address.empty()) {
    return wrong("WorkerApps find each other by MasterApp; give --master-address HOST:PORT");
  }
  if (flags.worker_processes == 0) {
    return wrong(
        "with --worker-processes 0 nobody trains; give 1 or more (others can be started by hand)");
  }
  if (flags.master_address.starts_with("0.0.0.0:") || flags.master_address.starts_with("[::]:")) {
    return wrong("WorkerApps connect to --master-address " + flags.master_address +
                 ", which is no host: give an address of this machine that they reach");
  }
  return absl::OkStatus();
}

// Its trainers are programs of one's own, which may be started here as well.
Status CheckExternal(const JobConfig& config, const MasterFlags& flags) {
  if (!IsExternal(config.training())) return absl::OkStatus();
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError("--model external: " + what);
  };
  if (config.producer().has_input()) {
    return wrong("its trainers read no rows from Kafka; leave out --input");
  }
  if (flags.worker_processes > 0 && flags.worker_command.empty()) {
    return wrong(
        "no WorkerApp can train it; give the trainer's command line (--worker-command), or "
        "--worker-processes 0 and start the trainers by hand");
  }
  if (flags.worker_processes > 0 && flags.worker_processes != config.workers()) {
    spdlog::warn(
        "the job has {} trainers (--workers), and {} processes run --worker-command: {}",
        config.workers(), flags.worker_processes,
        flags.worker_processes < config.workers()
            ? "it waits for those that no process is. Give --worker-processes as many, unless each "
              "process is several trainers, or others are started by hand"
            : "no two may be the same trainer. Give as many --workers");
  }
  return absl::OkStatus();
}

// Where a program's settings are from now on: a path.
using KeepSettings =
    std::function<StatusOr<std::string>(JobProgram program, const JobConfig& file)>;

StatusOr<ProcessPlan> PlanOf(const JobConfig& config, JobProcessesOptions options,
                             const KeepSettings& keep_file) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error) return absl::FailedPreconditionError("the current folder: " + error.message());
  const auto keep = [&](JobProgram program) {
    return keep_file(program, JobFileOf(config, program, here.string()));
  };
  MILLRACE_ASSIGN_OR_RETURN(options.server_file, keep(JobProgram::kServer));
  MILLRACE_ASSIGN_OR_RETURN(options.worker_file, keep(JobProgram::kWorker));
  if (options.has_input) {
    MILLRACE_ASSIGN_OR_RETURN(options.producer_file, keep(JobProgram::kProducer));
  }
  if (!options.worker_evaluation_log.empty()) {
    options.worker_evaluation_log = (here / options.worker_evaluation_log).string();
  }
  MILLRACE_ASSIGN_OR_RETURN(ProcessPlan plan, PlanJobProcesses(options));
  const Status usable = CheckPlan(plan);
  if (!usable.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the planned processes: ", usable.message()));
  }
  return plan;
}

// REQUIRES of callers: nothing is served.
Status CheckNoTaskFlags(const MasterFlags& flags) {
  const char* const given = flags.task_timeout_s                  ? "--task-timeout"
                            : !flags.task_fault_tolerance.empty() ? "--task-fault-tolerance"
                            : flags.node_timeout_s                ? "--node-timeout"
                            : flags.evaluation_records            ? "--evaluation-records"
                            : flags.evaluation_task_records       ? "--evaluation-task-records"
                            : flags.evaluation_every_tasks        ? "--evaluation-every-tasks"
                            : flags.end_task                      ? "--end-task"
                                                                  : nullptr;
  if (given == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      given, " has no effect without --master-address: give that, too, or leave out ", given));
}

Status AddFollowers(const MasterFlags& flags, TaskServerOptions& tasks) {
  const char* const alone = flags.evaluation_task_records  ? "--evaluation-task-records"
                            : flags.evaluation_every_tasks ? "--evaluation-every-tasks"
                                                           : nullptr;
  if (!flags.evaluation_records && alone != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(alone,
                     " has no effect without --evaluation-records: give that, too, or leave "
                     "out ",
                     alone));
  }
  tasks.evaluation_records = flags.evaluation_records.value_or(0);
  tasks.evaluation_task_records = flags.evaluation_task_records.value_or(0);
  tasks.evaluation_every_tasks = flags.evaluation_every_tasks.value_or(0);
  tasks.end_task = flags.end_task;
  return absl::OkStatus();
}

StatusOr<TaskServerOptions> TasksOf(const JobConfig& config, const MasterFlags& flags) {
  TaskServerOptions tasks;
  if (flags.master_address.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckNoTaskFlags(flags));
    return tasks;
  }
  if (!IsHostAndPort(flags.master_address)) {
    return absl::InvalidArgumentError(absl::StrCat("--master-address ", flags.master_address,
                                                   ": a HOST:PORT is needed, 127.0.0.1:50001 say"));
  }
  if (!IsLoopback(flags.master_address)) {
    spdlog::warn(
        "--master-address {} is not a loopback address, and there is no login: anyone who reaches "
        "it can take tasks, report them, and join as a node. Restrict access to it "
        "(docs/security.md)",
        flags.master_address);
  }
  tasks.address = flags.master_address;
  tasks.timeout_ticks = flags.task_timeout_s.value_or(kTaskTimeoutS);
  if (flags.task_fault_tolerance == kOff) tasks.most_failures = 0;
  tasks.node_timeout_ticks = flags.node_timeout_s.value_or(
      TrainsByAllReduce(config.training()) ? kMemberTimeoutS : kNodeTimeoutS);
  tasks.seed = Fnv1a64(config.name());
  MILLRACE_RETURN_IF_ERROR(AddFollowers(flags, tasks));
  return tasks;
}

// Leases are for our own workers, and for those that the plan gives them to.
Status CheckSharding(const JobConfig& config, const MasterFlags& flags) {
  if (config.training().sharding() != Training::DYNAMIC) {
    if (flags.lease_rows == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--lease-rows has no effect without --sharding dynamic: give that, too, or leave it out");
  }
  if (!flags.worker_command.empty()) {
    return absl::InvalidArgumentError(
        "--sharding dynamic leases rows to WorkerApps: leave out --worker-command. Trainers of "
        "other kinds get tasks (--master-address, docs/tasks.md)");
  }
  if (flags.worker_processes == 0) {
    return absl::InvalidArgumentError(
        "--sharding dynamic leases rows to WorkerApps that MasterApp starts, and "
        "--worker-processes 0 starts none: give 1 or more");
  }
  return absl::OkStatus();
}

// ---- what runs it ----

struct Prepared {
  std::unique_ptr<Launcher> launcher;
  MasterOptions options;
};

StatusOr<Prepared> PrepareLocal(const JobConfig& config, const MasterFlags& flags,
                                const JobProcessesOptions& processes, MasterWakeup& wakeup) {
  LocalLauncherOptions local;
  local.run_dir = processes.run_dir;
  local.shim = processes.program_dir + "/ProcessShim";
  local.job = config.name();
  local.epoch = config.epoch();
  local.grace = std::chrono::milliseconds(static_cast<int64_t>(1000 * flags.grace_period_s));
  local.on_change = [&wakeup] { wakeup.NoteProcesses(); };
  Prepared prepared;
  // First, since it knows whether the run folder is this job's.
  MILLRACE_ASSIGN_OR_RETURN(prepared.launcher, LocalLauncher::Create(local));
  MILLRACE_RETURN_IF_ERROR(CheckAddresses(config.topology(), *prepared.launcher));
  const KeepSettings keep = [&](JobProgram program, const JobConfig& file) {
    return KeepJobFile(processes.run_dir, std::string(GroupOf(program)), file);
  };
  MILLRACE_ASSIGN_OR_RETURN(prepared.options.plan, PlanOf(config, processes, keep));
  return prepared;
}

StatusOr<Prepared> PrepareKubernetes(const JobConfig& config, const MasterFlags& flags,
                                     const JobProcessesOptions& processes, MasterWakeup& wakeup,
                                     const std::atomic<bool>& stop) {
  Prepared prepared;
  std::map<std::string, std::string> settings;
  const KeepSettings keep = [&](JobProgram program,
                                const JobConfig& file) -> StatusOr<std::string> {
    MILLRACE_ASSIGN_OR_RETURN(std::string text, JobFileText(file));
    std::string name = JobFileName(std::string(GroupOf(program)), text);
    std::string path = absl::StrCat(processes.run_dir, "/config/", name);
    settings[std::move(name)] = std::move(text);
    return path;
  };
  MILLRACE_ASSIGN_OR_RETURN(prepared.options.plan, PlanOf(config, processes, keep));
  std::vector<std::string> groups;
  for (const ProcessGroup& group : prepared.options.plan.groups()) groups.push_back(group.name());
  MILLRACE_ASSIGN_OR_RETURN(KubernetesLauncherOptions options,
                            ToLauncherOptions(flags.kubernetes, groups));
  options.pods.job = config.name();
  options.pods.epoch = config.epoch();
  options.pods.folder = processes.run_dir;
  // One of 0 would be taken for a pod that is gone.
  options.pods.grace_s =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(flags.grace_period_s)));
  options.settings = std::move(settings);
  options.on_change = [&wakeup] { wakeup.NoteProcesses(); };
  options.say = [](const std::string& line) { spdlog::warn("{}", line); };
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KubernetesLauncher> launcher,
                            KubernetesLauncher::Create(std::move(options), stop));
  prepared.options.place = "the namespace " + launcher->kube_namespace();
  spdlog::info("job {}: its processes are the pods with the label {}={} in {}", config.name(),
               kJobLabel, launcher->job_id(), prepared.options.place);
  prepared.launcher = std::move(launcher);
  return prepared;
}

// ---- how it ended ----

void ShowLogs(const JobProcesses& job, const std::string& run_dir) {
  constexpr int kLines = 15;
  for (const ProcessState& process : job.processes) {
    if (process.phase() != ProcessState::FAILED) continue;
    const std::string log = ProcessLogPath(run_dir, ToText(process.process()));
    const std::string lines = LastLogLines(log, process.incarnation(), kLines);
    if (lines.empty()) continue;
    std::fprintf(stderr, "the end of %s:\n%s\n", log.c_str(), lines.c_str());
  }
}

Status ResultOf(const JobConfig& config, const JobProcesses& job, const MasterOptions& options) {
  if (job.state.phase() == MasterState::ENDED) return absl::OkStatus();
  if (job.state.phase() != MasterState::FAILED) return absl::CancelledError("stopped");
  const std::string failed =
      absl::StrCat("the job ", config.name(), " has failed: ", job.state.failure());
  if (!options.place.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        failed,
        ". Remove the cause and start MasterApp again, with the same --job: the job goes on"));
  }
  ShowLogs(job, options.run_dir);
  return absl::FailedPreconditionError(
      absl::StrCat(failed, " (logs: ", options.run_dir,
                   "/logs). Remove the cause that its log names and start MasterApp again, with "
                   "the same --job and --run-dir: the job goes on"));
}

// Before an earlier master is fenced: what the job's programs would refuse must not take it over.
Status CheckProgramsAsBegun(const JobConfig& config, const MasterFlags& flags,
                            const JobProcessesOptions& processes, const std::atomic<bool>& stop) {
  // Programs of other kinds have no settings, nor need they a right to read them.
  if (!flags.worker_command.empty() && !IsExternal(config.training())) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const BegunJob begun, ReadBegunJob(config, stop));
  const ProgramsOfJob programs = {.train = processes.server_processes > 0 || processes.all_reduce,
                                  .send_rows = processes.has_input};
  return CheckAsBegun(config, programs, begun);
}

// The same, of what the master before has run. (A job that has ended stays so, whatever the plan.)
Status CheckPlanAsBegun(const JobConfig& config, const ProcessPlan& plan,
                        const std::atomic<bool>& stop) {
  const StatusOr<JobProcesses> before = ReadJobProcesses(config, stop);
  // Nobody has run it, or the master itself says what is wrong.
  if (absl::IsFailedPrecondition(before.status())) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(before.status());
  const MasterState::Phase phase = before->state.phase();
  if (phase == MasterState::IDLE || phase == MasterState::ENDED) return absl::OkStatus();
  const Status kept = CheckKeepsPrograms(before->state.plan(), plan);
  return kept.ok() ? kept
                   : WithText(kept, "job " + config.name() + ": " + std::string(kept.message()));
}

Status Run(const JobFlags& job_flags, MasterFlags flags) {
  MILLRACE_RETURN_IF_ERROR(CheckLauncher(flags));
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, job_flags.Load());
  MILLRACE_RETURN_IF_ERROR(TakeTopology(config, flags));
  MILLRACE_RETURN_IF_ERROR(CheckFiles(config, flags));
  MILLRACE_RETURN_IF_ERROR(CheckStrategy(config, flags));
  MILLRACE_RETURN_IF_ERROR(CheckExternal(config, flags));
  MILLRACE_RETURN_IF_ERROR(CheckSharding(config, flags));
  MILLRACE_ASSIGN_OR_RETURN(const TaskServerOptions tasks, TasksOf(config, flags));
  const bool all_reduce = TrainsByAllReduce(config.training());
  if (all_reduce) config.mutable_worker()->set_master_address(flags.master_address);
  const bool in_cluster = flags.launcher == kKubernetesLauncher;
  JobProcessesOptions processes;
  processes.shards = config.shards();
  processes.workers = config.workers();
  processes.has_input = config.producer().has_input();
  processes.serves_tasks = !flags.master_address.empty();
  processes.all_reduce = all_reduce;
  processes.server_processes = flags.server_processes.value_or(all_reduce ? 0 : config.shards());
  processes.worker_processes = flags.worker_processes;
  processes.slots = flags.slots;
  processes.most_relaunches = flags.relaunches;
  processes.most_server_relaunches = flags.server_relaunches;
  processes.stay = flags.stay;
  processes.worker_evaluation_log = flags.worker_evaluation_log.empty()
                                        ? config.worker().evaluation_log()
                                        : flags.worker_evaluation_log;
  processes.run_dir = kFolderInPods;
  if (!in_cluster) {
    MILLRACE_ASSIGN_OR_RETURN(processes.run_dir, RunDir(flags.run_dir, config));
  }
  MILLRACE_ASSIGN_OR_RETURN(processes.program_dir, ProgramDir());
  MILLRACE_RETURN_IF_ERROR(AddCommands(flags, processes));
  MILLRACE_RETURN_IF_ERROR(PlanJobProcesses(processes).status());
  const std::atomic<bool>& stop = StopOnSignals();
  MasterWakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(Prepared prepared,
                            in_cluster ? PrepareKubernetes(config, flags, processes, wakeup, stop)
                                       : PrepareLocal(config, flags, processes, wakeup));
  prepared.options.run_dir = processes.run_dir;
  prepared.options.run_dir_is_lost = flags.run_dir_is_lost;
  prepared.options.tasks = tasks;
  prepared.options.leases_rows = config.training().sharding() == Training::DYNAMIC;
  prepared.options.lease_rows = flags.lease_rows;
  if (prepared.options.plan.groups().empty()) {
    spdlog::info(
        "no process is to run: tasks are dealt out until Ctrl-C, SIGTERM or MasterApp stop");
  } else if (!processes.has_input && flags.worker_command.empty() &&
             config.training().model() != Training::EXTERNAL) {
    spdlog::info("no --input: other programs are to send the rows (CsvProducer, TopicSource)");
  }
  MILLRACE_RETURN_IF_ERROR(PrepareMasterTopics(config, stop));
  MILLRACE_RETURN_IF_ERROR(CheckProgramsAsBegun(config, flags, processes, stop));
  MILLRACE_RETURN_IF_ERROR(CheckPlanAsBegun(config, prepared.options.plan, stop));
  if (!in_cluster) {
    spdlog::info("job {}: what its processes say is in {}/logs", config.name(), processes.run_dir);
  }
  const StatusOr<JobProcesses> job =
      RunMaster(config, prepared.options, *prepared.launcher, wakeup, stop);
  if (!job.ok()) return NotOfUsage(job.status());
  return ResultOf(config, *job, prepared.options);
}

int RunJob(int argc, char** argv) {
  // Those that it gives each process itself.
  constexpr std::string_view kWithout[] = {
      "server.server_ids",     "server.data_dir", "server.checkpoint_now", "server.stay",
      "worker.evaluation_log", "worker.data_dir", "worker.stay",           "worker.master_address"};
  CLI::App app(kDescription, "MasterApp");
  app.footer(kFooter);
  JobFlags job_flags(app);
  job_flags.AddAll(kWithout);
  MasterFlags flags;
  AddMasterFlags(app, flags);
  return RunProgram(app, "MasterApp", argc, argv, [&] {
    flags.has_kubernetes_flags = HasKubernetesFlags(app);
    flags.has_worker_processes = app.count("--worker-processes") > 0;
    return Run(job_flags, flags);
  });
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.front() == '-') return millrace::RunJob(argc, argv);
  return millrace::RunMasterCommand(word, argc - 1, argv + 1);
}
