// ServerApp, which hosts the server shards of a job, as a function.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "apps/all_reduce_checks.h"
#include "apps/incarnation_flag.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "apps/publish_settings.h"
#include "apps/run_setup.h"
#include "apps/server_paths.h"
#include "apps/topology.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_model.h"
#include "durability/snapshots/snapshot_reader.h"
#include "durability/snapshots/snapshot_request.h"
#include "exports/model_writer.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "job/stop_signal.h"
#include "job/topic_exists.h"
#include "millrace/server.h"
#include "server/all_weights.h"
#include "server/server_loop.h"
#include "tasks/group_checks.h"
#include "tasks/parameter_options.h"
#include "tasks/task_options.h"
#include "topics/master_topics.h"
#include "topics/most_workers.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace ServerApp: holds the weights of a job, combines the workers' updates and answers\n"
    "them by the consistency model. Every update is in Kafka before it counts, so a killed server\n"
    "that is started again continues where it was, with every update.";

constexpr char kFooter[] =
    "Examples\n"
    "  ServerApp --brokers localhost:9092 --job flights\n"
    "  ServerApp --job flights --consistency bounded:2 --optimizer adam --learning-rate 0.01 \\\n"
    "            --test holdout.csv --evaluation-log server.csv --weights-file weights.npy\n"
    "  python3 -c 'import numpy; print(numpy.load(\"weights.npy\").shape)'   # softmax:\n"
    "                                                    # features + 1, classes\n"
    "\n"
    "The server publishes the training settings; the workers take them from the job's topic. It\n"
    "waits for CsvProducer, which publishes the features. It ends when every worker has left\n"
    "every shard of the job.\n"
    "\n"
    "Exit codes: 0 the job has ended; 1 an error; 2 wrong usage; 4 another process has taken a\n"
    "shard over (after the next start this one waits until that one has stopped); 130 stopped by\n"
    "Ctrl-C or SIGTERM, with everything saved: the job goes on when it is started again.";

// The snapshot that --from-snapshot names. A job that has begun keeps what it began with: nobody
// has to keep the folder for as long as the job lives, and none is what has gone meanwhile.
StatusOr<std::optional<SnapshotManifest>> SnapshotOf(const JobConfig& config,
                                                     const std::optional<JobTraining>& begun) {
  if (!config.server().has_from_snapshot()) return std::optional<SnapshotManifest>();
  const std::string& folder = config.server().from_snapshot();
  const bool has_begun_so = begun && !begun->start().empty();
  StatusOr<SnapshotManifest> manifest = has_begun_so ? ReadManifest(folder) : CheckSnapshot(folder);
  if (has_begun_so && !manifest.ok()) {
    spdlog::info(
        "--from-snapshot was not read, and is not needed: the job started from snapshot {} and "
        "continues from its own checkpoints. The reason: {}",
        begun->start(), std::string(manifest.status().message()));
    return std::optional<SnapshotManifest>();
  }
  MILLRACE_RETURN_IF_ERROR(manifest.status());
  return std::optional<SnapshotManifest>(*std::move(manifest));
}

// What a job starts from, by name. InvalidArgument when it cannot.
StatusOr<std::string> StartOf(const JobConfig& config, const JobFeatures& features,
                              const SnapshotManifest& snapshot) {
  const SnapshotStart start = ToSnapshotStart(config);
  MILLRACE_RETURN_IF_ERROR(
      CheckSnapshotFits(snapshot, features, config.training(), config.workers(), start));
  const std::string differences = TrainingDifferences(snapshot, config.training());
  if (!differences.empty()) {
    spdlog::warn(
        "the training settings differ from those of the snapshot's job; this job uses its own "
        "flags:\n{}",
        differences);
  }
  return snapshot.job() + "-" + std::to_string(snapshot.snapshot()) +
         (start == SnapshotStart::kNewStream ? ", a new stream" : "");
}

// A weights file has no names: here they are.
void SayColumns(const Server& server, const JobFeatures& features) {
  if (!server.has_weights_file() || features.spec().classes_size() == 0) return;
  spdlog::info("classes, in the order of their columns in {}: {}", server.weights_file(),
               absl::StrJoin(features.spec().classes(), ", "));
}

// Writes the model of --from-snapshot, or of a snapshot that the running job is asked for, or of
// the last one of a job that has ended.
Status Export(const JobConfig& config, const std::string& folder, const std::atomic<bool>& stop) {
  if (folder.empty()) return absl::InvalidArgumentError("--export: give the name of a folder");
  MILLRACE_RETURN_IF_ERROR(CheckModelFolder(folder));
  std::string snapshot = config.server().from_snapshot();
  if (!config.server().has_from_snapshot()) {
    std::error_code ignored;
    if (!config.server().has_snapshot_dir() &&
        !std::filesystem::is_directory(config.server().data_dir(), ignored)) {
      return absl::InvalidArgumentError(
          "--export asks the job for a snapshot, and reads it from a disk that this machine shares "
          "with its servers: give their --snapshot-dir, or the --data-dir of a single server "
          "without one (" +
          config.server().data_dir() +
          " does not exist); or give the folder of a snapshot (--from-snapshot)");
    }
    JobConfig asking = config;
    asking.mutable_server()->set_snapshot_dir(SnapshotParent(config));
    MILLRACE_ASSIGN_OR_RETURN(snapshot, NewestStateAsSnapshot(asking, stop));
  }
  MILLRACE_ASSIGN_OR_RETURN(const SnapshotManifest manifest, CheckSnapshot(snapshot));
  MILLRACE_ASSIGN_OR_RETURN(const std::string why_no_graph,
                            ExportSnapshot(snapshot, manifest, folder));
  LogModel(folder, why_no_graph);
  return absl::OkStatus();
}

// Leases come from a master, which has made its topics before it starts anything.
Status CheckThatAMasterLeases(const JobConfig& config, const std::atomic<bool>& stop) {
  if (config.training().sharding() != Training::DYNAMIC) return absl::OkStatus();
  const std::string control = MasterTopicName(config.name(), MasterTopic::kControl);
  MILLRACE_ASSIGN_OR_RETURN(const bool had_a_master, TopicExists(config, control, stop));
  if (had_a_master) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "--sharding dynamic: no MasterApp has run the job " + config.name() +
      ", and only MasterApp leases rows to workers. Start the job by MasterApp --sharding dynamic, "
      "or leave --sharding out");
}

// Trainers of one's own wait for a server, and are told why there is none.
void TellTrainers(const Status& why, JobRegistry& registry) {
  const Status told = registry.PublishRefusal(std::string(why.message()));
  if (!told.ok())
    spdlog::warn("the job's trainers could not be told why this server ends: {}", TextOf(told));
}

// Returns `read`: what the job was begun with. That a program of another version began it is told
// to trainers, too.
template <typename T>
StatusOr<T> OrTellTrainers(StatusOr<T> read, const JobConfig& config, JobRegistry& registry) {
  const bool has_trainers = config.training().model() == Training::EXTERNAL;
  if (has_trainers && absl::IsFailedPrecondition(read.status())) {
    TellTrainers(read.status(), registry);
  }
  return read;
}

Status CheckCanServe(const JobFeatures& features, const JobConfig& config, JobRegistry& registry) {
  const Training& training = config.training();
  Status served = CheckModel(features, training);
  if (served.ok()) served = CheckHandlers(features);
  if (served.ok() && config.topology().server_group_size() > 1) {
    served = CheckModelInGroups(features, training);
  }
  if (!served.ok() && !features.parameters().empty()) TellTrainers(served, registry);
  return served;
}

Status Run(const JobFlags& flags, const std::optional<std::string>& export_to,
           const std::string& process) {
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, flags.Load());
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<Incarnation> self, IncarnationFlag(process));
  if (self) {
    MILLRACE_ASSIGN_OR_RETURN(const ProcessName name, ParseProcessName(self->process));
    MILLRACE_RETURN_IF_ERROR(ListenAsInTopology(name.rank(), config));
  }
  const std::atomic<bool>& stop = StopOnSignals();
  if (export_to) return Export(config, *export_to, stop);
  if (config.server().checkpoint_now()) return AskForSnapshot(config, stop).status();
  if (TrainsByAllReduce(config.training())) {
    return absl::InvalidArgumentError(
        "--distribution-strategy AllReduce: such a job has no servers; MasterApp starts its "
        "WorkerApps (docs/all-reduce.md)");
  }
  RequestSnapshotsOnSignal();
  MILLRACE_RETURN_IF_ERROR(CheckServerPaths(config));
  MILLRACE_RETURN_IF_ERROR(CheckThatAMasterLeases(config, stop));
  JobTopics topics(stop);
  MILLRACE_RETURN_IF_ERROR(topics.Prepare(config));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> begun,
                            OrTellTrainers(registry->ReadTraining(), config, *registry));
  if (begun) SetDefaultsAsBegun(begun->training(), *config.mutable_training());
  SetDefaults(*config.mutable_training());
  if (!begun) {  // Else its shards may have changed: RunServer makes sure of their topics.
    const auto groups = static_cast<uint32_t>(config.topology().server_group_size());
    MILLRACE_RETURN_IF_ERROR(topics.PrepareLayout(
        config,
        TopicSizesOf(config.training(), config.workers(), config.shards(), std::max(groups, 1U))));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<SnapshotManifest> snapshot,
                            SnapshotOf(config, begun));
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features,
                            OrTellTrainers(registry->WaitForFeatures(), config, *registry));
  MILLRACE_RETURN_IF_ERROR(CheckCanServe(features, config, *registry));
  SayColumns(config.server(), features);
  std::string start = begun ? begun->start() : "";
  if (snapshot) {
    MILLRACE_ASSIGN_OR_RETURN(start, StartOf(config, features, *snapshot));
  }
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training,
                            PublishSettings(config, features, start, *registry));
  return RunServer(config, features, training, *registry, topics,
                   ServerSetup(config, features, training, registry->training_published_ms()), self,
                   stop);
}

}  // namespace

int server::RunServerApp(int argc, char** argv) {
  CLI::App app(kDescription, "ServerApp");
  app.footer(kFooter);
  JobFlags flags(app);
  flags.AddTraining();
  flags.AddServer();
  std::optional<std::string> export_to;
  app.add_option("--export", export_to,
                 "Write the model to this folder, and exit (docs/model-format.md): of the running\n"
                 "job, which is asked for a snapshot, so give the --snapshot-dir of its servers,\n"
                 "too, or the --data-dir of a single server without one; of a job that has ended,\n"
                 "by its last snapshot there; or of the snapshot --from-snapshot, without a job.\n"
                 "Each snapshot has its model in the folder model")
      ->type_name("FOLDER")
      ->group("Snapshots of all shards");
  std::string process;
  app.add_option("--process", process,
                 "Set by MasterApp, not by hand: the name and incarnation of this process in the\n"
                 "plan, which says which shards it hosts. [not set: --server-ids says it]")
      ->type_name("PROCESS:INCARNATION")
      ->group("Server");
  return RunProgram(app, "ServerApp", argc, argv, [&] { return Run(flags, export_to, process); });
}

}  // namespace millrace
