#include "apps/master_commands.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "base/did_you_mean.h"
#include "base/error_marks.h"
#include "base/interruptible_output.h"
#include "base/printable.h"
#include "job/stop_signal.h"
#include "job/topic_exists.h"
#include "master/job_view.h"
#include "master/master_requests.h"
#include "master/model_quality.h"
#include "master/plan_reader.h"
#include "master/status_json.h"
#include "master/status_table.h"
#include "topics/master_topics.h"

namespace millrace {
namespace {

constexpr double kBrokerTimeoutS = 5;
constexpr int kExitNoMaster = 3;  // none has answered what was asked of it
constexpr char kBrokerTimeoutHelp[] =
    "Seconds to wait for a broker before giving up; 0 waits for ever [5]";

constexpr char kStatusDescription[] =
    "MasterApp status: shows a job's processes as its MasterApp sees them.";
constexpr char kStatusFooter[] =
    "Examples\n"
    "  MasterApp status --job flights\n"
    "  MasterApp status --job flights --json | jq '.processes[] | {name, phase}'\n"
    "\n"
    "It reads the job's topic plan, which MasterApp writes, and the topic metrics, and warns if\n"
    "MasterApp gives no sign any more (what it shows may be of long ago then), and if the model\n"
    "is worse than the class frequencies, or the mean, alone. docs/master.md says what the phases\n"
    "are, and has the fields of --json.\n"
    "\n"
    "Exit codes: 0 the status was shown; 1 an error, or no MasterApp has run the job; 2 wrong\n"
    "usage.";

constexpr char kStopDescription[] =
    "MasterApp stop: has a job's MasterApp stop the job's processes, wherever it runs.";
constexpr char kStopFooter[] =
    "Examples\n"
    "  MasterApp stop --job flights\n"
    "\n"
    "The processes end in an orderly way, workers first, servers last, with everything saved: the\n"
    "job goes on when MasterApp is started again. Waits until they have ended; Ctrl-C ends the\n"
    "waiting only.\n"
    "\n"
    "Exit codes: 0 they are stopped, or had ended; 1 an error; 2 wrong usage; 3 no MasterApp has\n"
    "answered for 10 seconds, and the next one is not stopped; 130 Ctrl-C or SIGTERM: the stop\n"
    "goes on.";

constexpr char kResizeDescription[] =
    "MasterApp resize: changes the number of a job's logical workers while it trains.";
constexpr char kResizeFooter[] =
    "Examples\n"
    "  MasterApp resize --job flights --workers 8\n"
    "\n"
    "For jobs that lease rows (--sharding dynamic, docs/leases.md). New workers get leases when\n"
    "shard 0 has let them in; workers that are too many finish their leases, and leave. The\n"
    "number of processes stays as it is: they share the logical workers. Waits until the job has\n"
    "so many; Ctrl-C ends the waiting only.\n"
    "\n"
    "Exit codes: 0 the job has so many workers; 1 an error, and nothing has changed, or the job\n"
    "has ended before it had so many; 2 wrong usage; 3 no MasterApp has answered for 10 seconds:\n"
    "the change waits for the next one; 130 Ctrl-C or SIGTERM: the change goes on.";

constexpr char kMoveDescription[] =
    "MasterApp move: has another server process host a shard while the job trains.";
constexpr char kMoveFooter[] =
    "Examples\n"
    "  MasterApp move --job flights --shard 3 --to server-1\n"
    "\n"
    "MasterApp status shows which process hosts which shards. The new process takes the\n"
    "shard's state from a replica if there is one, else from Kafka; updates wait in Kafka\n"
    "meanwhile, and none is lost. The other shards of both processes pause for a moment, too.\n"
    "Waits until the move is in MasterApp's plan; the log of the new process says when it answers\n"
    "workers.\n"
    "\n"
    "Exit codes: 0 the plan gives the shard to that process; 1 an error, and nothing has changed;\n"
    "2 wrong usage; 3 no MasterApp has answered for 10 seconds: the move waits for the next one;\n"
    "130 Ctrl-C or SIGTERM: the move goes on.";

constexpr char kReshardDescription[] =
    "MasterApp reshard: changes the number of a job's shards while it trains.";
constexpr char kReshardFooter[] =
    "Examples\n"
    "  MasterApp reshard --job flights --shards 5\n"
    "\n"
    "All shards stop at one point of the training, the new ones begin from their state, and\n"
    "servers, workers and trainers of one's own switch to them by themselves. A sequential job\n"
    "ends in the same bytes. The number of server processes stays as it is: they share the new\n"
    "shards. A job that gets no rows changes when rows come. docs/master.md says which jobs\n"
    "cannot be changed. Waits until the job has so many shards; Ctrl-C ends the waiting only.\n"
    "\n"
    "Exit codes: 0 the job has so many shards; 1 an error, and nothing has changed; 2 wrong\n"
    "usage; 3 no MasterApp has answered for 10 seconds: the change waits for the next one; 130\n"
    "Ctrl-C or SIGTERM: the change goes on.";

// A command that a person waits for gives up without a broker, unless told otherwise.
StatusOr<JobConfig> LoadToAsk(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, flags.Load());
  if (!config.has_broker_timeout_s()) config.set_broker_timeout_s(kBrokerTimeoutS);
  const std::atomic<bool>& stop = StopOnSignals();
  // Who reads a topic that is not there waits for it.
  const StatusOr<bool> has_plan =
      TopicExists(config, MasterTopicName(config.name(), MasterTopic::kPlan), stop);
  MILLRACE_RETURN_IF_ERROR(has_plan.status());
  if (!*has_plan) return NoMasterError(config);
  return config;
}

Status Print(const std::string& text) {
  return InterruptibleOutput::OfStdout(StopOnSignals()).Write(text);
}

Status ShowStatus(const JobFlags& flags, bool json) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, LoadToAsk(flags));
  const std::atomic<bool>& stop = StopOnSignals();
  MILLRACE_ASSIGN_OR_RETURN(JobProcesses job, ReadJobProcesses(config, stop));
  // Who may not read figures is shown the processes.
  const StatusOr<std::optional<std::string>> worse_than_prior = ReadWorseThanPrior(config, stop);
  if (worse_than_prior.ok()) {
    job.worse_than_prior = *worse_than_prior;
  } else {
    std::fprintf(
        stderr,
        "MasterApp status: the topic %s.metrics cannot be read, so it is not known whether the "
        "model is worse than the class frequencies (%s). Give this user the right to read it "
        "(docs/security.md)\n",
        config.name().c_str(), std::string(worse_than_prior.status().message()).c_str());
  }
  return Print(json ? StatusJson(config.name(), job) : StatusTable(config.name(), job));
}

Status Stop(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, LoadToAsk(flags));
  MILLRACE_ASSIGN_OR_RETURN(const JobProcesses job, StopJob(config, StopOnSignals()));
  return Print(StatusTable(config.name(), job));
}

Status Resize(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, LoadToAsk(flags));
  MILLRACE_ASSIGN_OR_RETURN(const JobProcesses job,
                            ResizeJob(config, config.workers(), StopOnSignals()));
  return Print(StatusTable(config.name(), job));
}

Status Reshard(const JobFlags& flags, uint32_t shards) {
  MILLRACE_RETURN_IF_ERROR(CheckShardCount(shards));  // before a broker is asked
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, LoadToAsk(flags));
  MILLRACE_ASSIGN_OR_RETURN(const JobProcesses job, ReshardJob(config, shards, StopOnSignals()));
  return Print(StatusTable(config.name(), job));
}

Status Move(const JobFlags& flags, uint32_t shard, const std::string& to) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, LoadToAsk(flags));
  MILLRACE_ASSIGN_OR_RETURN(const JobProcesses job, MoveShard(config, shard, to, StopOnSignals()));
  return Print(StatusTable(config.name(), job));
}

// `run`: an error that is pending (base/error_marks.h) is that no master has answered.
int RunCommand(CLI::App& app, int argc, char** argv, const std::function<Status()>& run) {
  bool is_unanswered = false;
  const int code = RunProgram(app, app.get_name(), argc, argv, [&] {
    Status status = run();
    is_unanswered = IsPending(status);
    return status;
  });
  return code == kExitError && is_unanswered ? kExitNoMaster : code;
}

// Of a command's flags, which all programs have.
void DescribeFlags(CLI::App& app, JobFlags& flags) {
  app.get_option("--broker-timeout")->description(kBrokerTimeoutHelp);
  flags.Hide({"--workers", "--replication-factor"});
}

int RunStatus(int argc, char** argv) {
  CLI::App app(kStatusDescription, "MasterApp status");
  app.footer(kStatusFooter);
  JobFlags flags(app);
  DescribeFlags(app, flags);
  bool json = false;
  app.add_flag("--json", json, "A JSON object instead of a table")->group("Display");
  return RunCommand(app, argc, argv, [&] { return ShowStatus(flags, json); });
}

int RunStop(int argc, char** argv) {
  CLI::App app(kStopDescription, "MasterApp stop");
  app.footer(kStopFooter);
  JobFlags flags(app);
  DescribeFlags(app, flags);
  return RunCommand(app, argc, argv, [&] { return Stop(flags); });
}

int RunResize(int argc, char** argv) {
  CLI::App app(kResizeDescription, "MasterApp resize");
  app.footer(kResizeFooter);
  JobFlags flags(app);
  DescribeFlags(app, flags);
  // (That of a job file is what the job began with.)
  app.get_option("--workers")
      ->required()
      ->description("Logical workers that the job is to have")
      ->group("Workers");
  return RunCommand(app, argc, argv, [&] { return Resize(flags); });
}

int RunReshard(int argc, char** argv) {
  CLI::App app(kReshardDescription, "MasterApp reshard");
  app.footer(kReshardFooter);
  JobFlags flags(app);
  DescribeFlags(app, flags);
  uint32_t shards = 0;  // that of a job file is what the job began with
  app.add_option("--shards", shards, "Shards that the job is to have, 1 to 1000")
      ->required()
      ->type_name("UINT")
      ->group("Shards");
  return RunCommand(app, argc, argv, [&] { return Reshard(flags, shards); });
}

int RunMove(int argc, char** argv) {
  CLI::App app(kMoveDescription, "MasterApp move");
  app.footer(kMoveFooter);
  JobFlags flags(app);
  DescribeFlags(app, flags);
  uint32_t shard = 0;
  std::string to;
  app.add_option("--shard", shard, "The shard, from 0")->required()->group("Move");
  app.add_option("--to", to, "The process that is to host it, such as server-1")
      ->required()
      ->type_name("PROCESS")
      ->group("Move");
  return RunCommand(app, argc, argv, [&] { return Move(flags, shard, to); });
}

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
};
constexpr Command kCommands[] = {{"status", RunStatus},
                                 {"stop", RunStop},
                                 {"resize", RunResize},
                                 {"move", RunMove},
                                 {"reshard", RunReshard}};

}  // namespace

int RunMasterCommand(const std::string& command, int argc, char** argv) {
  std::vector<std::string> names;
  for (const auto& [name, run] : kCommands) {
    if (command == name) return run(argc, argv);
    names.emplace_back(name);
  }
  const std::optional<std::string> near = NearestWord(command, names);
  std::fprintf(stderr,
               "MasterApp: '%s' belongs to no flag, and is none of the commands %s%s "
               "(MasterApp --help lists all flags)\n",
               Printable(command).c_str(), absl::StrJoin(names, ", ").c_str(),
               near ? absl::StrCat("; did you mean ", *near, "?").c_str() : "");
  return kExitUsage;
}

}  // namespace millrace
