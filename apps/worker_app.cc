// WorkerApp: hosts logical workers, those that the consumer group or a master's plan gives it.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/all_reduce_checks.h"
#include "apps/all_reduce_worker.h"
#include "apps/config_checks.h"
#include "apps/incarnation_flag.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "apps/version.h"
#include "base/background_worker.h"
#include "base/printable.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "job/stop_signal.h"
#include "job/version_point.h"
#include "tasks/parameter_options.h"
#include "topics/planned_hosts.h"
#include "topics/server_groups.h"
#include "worker/worker_loop.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace WorkerApp: reads rows from the partitions that its consumer group gives it and\n"
    "answers every weights message with an update computed on them. Start as many as you like:\n"
    "they share the job's logical workers, and take over from one that dies. The WorkerApps that\n"
    "MasterApp starts get their logical workers from MasterApp's plan instead. Those of a job "
    "that\n"
    "trains by all-reduce have all weights, and need no ServerApp (docs/all-reduce.md).";

constexpr char kFooter[] =
    "Examples\n"
    "  WorkerApp --brokers localhost:9092 --job flights\n"
    "  WorkerApp --job flights --evaluation-log worker.csv --session-timeout 6\n"
    "\n"
    "How the job learns (schedule, batch, update) is published by ServerApp; WorkerApp waits for "
    "it.\n"
    "It ends when every worker of the job has left every shard; until then it takes over from\n"
    "other WorkerApps that end.\n"
    "\n"
    "Exit codes: 0 the job has ended; 1 an error; 2 wrong usage; 130 stopped by Ctrl-C or "
    "SIGTERM,\n"
    "with everything saved: the job continues when WorkerApp is started again.";

constexpr char kByMasterOnly[] =
    "this job trains by all-reduce: MasterApp starts its WorkerApps. To start one more by hand, "
    "give it as --config the job file of those that MasterApp starts "
    "(RUN-DIR/config/worker-N.textproto), and a --data-dir of its own";

Status Run(const JobFlags& flags, const std::string& process) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<Incarnation> self, IncarnationFlag(process));
  MILLRACE_RETURN_IF_ERROR(CheckReadsRows(config, "WorkerApp"));
  if (TrainsByAllReduce(config.training()) && !config.worker().has_master_address()) {
    return absl::InvalidArgumentError(kByMasterOnly);
  }
  const std::atomic<bool>& stop = StopOnSignals();
  MILLRACE_RETURN_IF_ERROR(CheckDataDir(config.worker().data_dir()));
  JobTopics topics(stop);
  MILLRACE_RETURN_IF_ERROR(topics.Prepare(config));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features, registry->WaitForFeatures());
  MILLRACE_RETURN_IF_ERROR(CheckLearnsRows(features));
  if (TrainsByAllReduce(config.training())) {
    return RunAllReduceWorker(config, features, *registry, topics, stop);
  }
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training, registry->WaitForTraining());
  MILLRACE_RETURN_IF_ERROR(CheckJob(features, training));
  if (TrainsByAllReduce(training.training())) {
    return absl::FailedPreconditionError(kByMasterOnly);
  }
  BackgroundWorker telling;  // a job is trained without it
  telling.Post("version", [&config] {
    const Status told = TellThatAWorkerBegins(config, MillraceVersion());
    if (told.ok()) return;
    spdlog::warn(
        "this WorkerApp trains, but Watch will not show its version: {}. If the right is missing, "
        "let its user write to the topic metrics (docs/security.md)",
        TextOf(told));
  });
  return RunWorker(config, features, training, *registry, topics, self, stop);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "WorkerApp");
  app.footer(millrace::kFooter);
  millrace::JobFlags flags(app);
  flags.AddWorker();
  std::string process;
  app.add_option("--process", process,
                 "Set by MasterApp, not by hand: the name and incarnation of this process in the\n"
                 "plan, which says what it hosts. [not set: the consumer group decides]")
      ->type_name("PROCESS:INCARNATION")
      ->group("Worker");
  return millrace::RunProgram(app, "WorkerApp", argc, argv,
                              [&] { return millrace::Run(flags, process); });
}
