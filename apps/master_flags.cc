#include "apps/master_flags.h"

#include "apps/finite_range.h"
#include "topics/lease_codec.h"
#include "topics/row_batch.h"

namespace millrace {
namespace {

constexpr int64_t kMostFlagRecords = int64_t{1} << 53;
constexpr char kGroup[] = "Processes";

void AddOwnFlags(CLI::App& app, MasterFlags& flags) {
  app.add_option(
         "--launcher", flags.launcher,
         "Where the processes run. local: on this machine; kubernetes: as pods of a cluster\n"
         "[local]")
      ->check(CLI::IsMember({kLocalLauncher, kKubernetesLauncher}).description(""))
      ->type_name("local|kubernetes")
      ->group(kGroup);
  app.add_option("--run-dir", flags.run_dir,
                 "Folder of the processes' data, settings and logs [millrace-data/JOB]")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option("--server-processes", flags.server_processes,
                 "How many ServerApps. They share the shards: give at most --shards; 0: none\n"
                 "[--shards; 0 with --distribution-strategy AllReduce]")
      ->check(CLI::Range(0, 1000).description(""))
      ->type_name("UINT")
      ->group(kGroup);
  app.add_option("--worker-processes", flags.worker_processes,
                 "How many WorkerApps, which share the job's logical workers, or processes of\n"
                 "--worker-command [2]")
      ->type_name("UINT")
      ->check(CLI::Range(0, 1000).description(""))
      ->group(kGroup);
  app.add_option("--slots", flags.slots,
                 "At most so many processes run at a time: servers first, then CsvProducer, then\n"
                 "workers; the others wait. 0: no limit [0]")
      ->type_name("UINT")
      ->check(CLI::Range(0, 1000).description(""))
      ->group(kGroup);
  app.add_option(
         "--relaunch-on-worker-failure", flags.relaunches,
         "A worker, CsvProducer or --end-command that fails is started again at most so many\n"
         "times in a row. (One that was killed is started again however often) [3]")
      ->type_name("UINT")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->group(kGroup);
  app.add_option("--relaunch-on-server-failure", flags.server_relaunches,
                 "The same for a server [no limit]")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->type_name("UINT")
      ->group(kGroup);
  app.add_flag("--stay", flags.stay,
               "Servers and workers keep running when the job has ended, until Ctrl-C, SIGTERM or\n"
               "MasterApp stop")
      ->group(kGroup);
  app.add_option("--grace-period", flags.grace_period_s,
                 "Seconds from SIGTERM to SIGKILL for a process that is to end [30]")
      ->type_name("FLOAT")
      ->check(FiniteRange(0, 86'400))
      ->group(kGroup);
  app.add_flag("--run-dir-is-lost", flags.run_dir_is_lost,
               "The processes that the last MasterApp started, on another machine or with another\n"
               "--run-dir, are gone for good: start them anew here")
      ->group(kGroup);
}

void AddProgramFlags(CLI::App& app, MasterFlags& flags) {
  app.add_option("--server-program", flags.server_program,
                 "A server program with handlers of your own to run instead of ServerApp\n"
                 "(docs/parameter-manager.md)")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option(
         "--worker-command", flags.worker_command,
         "A program and its arguments to run instead of WorkerApp. In them {rank} is the\n"
         "number of the process, from 0, and {incarnation} the number of this start, which\n"
         "no other start in the job has. Words as in a shell, with quotes")
      ->type_name("COMMAND")
      ->check(CLI::Validator(
          [](const std::string& command) {
            return std::string(command.empty() ? "the command is empty" : "");
          },
          ""))
      ->group(kGroup);
  app.add_option(
         "--end-command", flags.end_command,
         "A program and its arguments to run, on this machine or as a pod, when all processes\n"
         "of the job have ended; not if the job is stopped or has failed. Words as in\n"
         "--worker-command. If it is killed, it is started again; if it fails, as often as a\n"
         "worker (--relaunch-on-worker-failure). So it may begin more than once")
      ->type_name("COMMAND")
      ->group(kGroup);
  app.add_option("--worker-evaluation-log", flags.worker_evaluation_log,
                 "The WorkerApps' --evaluation-log; {rank} in it is the process's number")
      ->type_name("FILE")
      ->group(kGroup);
}

void AddLeaseFlags(CLI::App& app, MasterFlags& flags) {
  app.add_option(
         "--lease-rows", flags.lease_rows,
         "With --sharding dynamic: rows of a lease, which ends with the record that reaches\n"
         "them. 0: a 64th of the rows so far, 64 at least and 8192 at most [0]")
      ->type_name("UINT")
      ->check(CLI::Range(uint64_t{0}, kMostLeaseRows - kMostBatchRows).description(""))
      ->group(kGroup);
}

void AddTaskFlags(CLI::App& app, MasterFlags& flags) {
  constexpr char kTaskGroup[] = "Tasks and nodes";
  app.add_option(
         "--master-address", flags.master_address,
         "Where MasterApp listens, by gRPC: it deals out data sets as tasks to trainers that\n"
         "use ElasticDL's Python package (docs/tasks.md), and lets nodes of trainers join\n"
         "(docs/nodes.md), as WorkerApps do that train by all-reduce. There is no login\n"
         "[nowhere]")
      ->type_name("HOST:PORT")
      ->group(kTaskGroup);
  app.add_option(
         "--task-timeout", flags.task_timeout_s,
         "Seconds after which a task that is not reported goes to another trainer. 0: only\n"
         "when the trainer's process ends [1800]")
      ->check(CLI::Range(0, 1'000'000'000).description(""))
      ->type_name("UINT")
      ->group(kTaskGroup);
  app.add_option(
         "--task-fault-tolerance", flags.task_fault_tolerance,
         "on: a task of a dead or slow trainer goes to another, so it may be trained again.\n"
         "off: it is given up, and so is a task that its trainer says has failed: no task\n"
         "is dealt out twice. For data sets that are begun from now on [on]")
      ->check(CLI::IsMember({kOn, kOff}).description(""))
      ->type_name("on|off")
      ->group(kTaskGroup);
  app.add_option(
         "--evaluation-records", flags.evaluation_records,
         "Trainers that call get_task also get EVALUATION tasks, of a data set of so many\n"
         "records, after each epoch. (This and the next three: for training data sets that\n"
         "are begun from now on) [none]")
      ->check(CLI::Range(int64_t{1}, kMostFlagRecords).description(""))
      ->type_name("UINT")
      ->group(kTaskGroup);
  app.add_option(
         "--evaluation-task-records", flags.evaluation_task_records,
         "With --evaluation-records: records of an EVALUATION task [those of a TRAINING task]")
      ->check(CLI::Range(int64_t{1}, kMostFlagRecords).description(""))
      ->type_name("UINT")
      ->group(kTaskGroup);
  app.add_option(
         "--evaluation-every-tasks", flags.evaluation_every_tasks,
         "With --evaluation-records: evaluate whenever so many more TRAINING tasks are over\n"
         "(done or given up), and when all are [those of an epoch]")
      ->check(CLI::Range(int64_t{1}, kMostFlagRecords).description(""))
      ->type_name("UINT")
      ->group(kTaskGroup);
  app.add_flag(
         "--end-task", flags.end_task,
         "One trainer that calls get_task gets a TRAIN_END_CALLBACK task when all others are\n"
         "done, to export the model, say")
      ->group(kTaskGroup);
  app.add_option(
         "--node-timeout", flags.node_timeout_s,
         "Seconds without a sign of life after which a node counts as dead. For nodes that\n"
         "join from now on [30; 10 with --distribution-strategy AllReduce]")
      ->check(CLI::Range(1, 1'000'000'000).description(""))
      ->type_name("UINT")
      ->group(kTaskGroup);
}

}  // namespace

void AddMasterFlags(CLI::App& app, MasterFlags& flags) {
  // As of a job's other flags (JobFlags).
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddOwnFlags(app, flags);
  AddProgramFlags(app, flags);
  AddLeaseFlags(app, flags);
  AddTaskFlags(app, flags);
  AddKubernetesFlags(app, flags.kubernetes);
}

}  // namespace millrace
