#include "apps/all_reduce_worker.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "apps/all_reduce_checks.h"
#include "apps/config_checks.h"
#include "apps/run_setup.h"
#include "durability/snapshots/snapshot_files.h"
#include "server/all_weights.h"
#include "server/server_loop.h"
#include "tasks/task_options.h"
#ifdef MILLRACE_HAS_GLOO
#include "members/member_loop.h"
#endif

namespace millrace {
namespace {

// The same defaults as those of a job with servers.
StatusOr<JobTraining> PublishSettings(const JobFeatures& features, JobRegistry& registry,
                                      JobConfig& config) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> begun, registry.ReadTraining());
  if (begun) SetDefaultsAsBegun(begun->training(), *config.mutable_training());
  SetDefaults(*config.mutable_training());
  MILLRACE_RETURN_IF_ERROR(CheckModel(features, config.training()));
  MILLRACE_RETURN_IF_ERROR(CheckAllReduceFeatures(features, config.training()));
  JobTraining training;
  training.set_epoch(config.epoch());
  training.set_shards(config.shards());
  *training.mutable_training() = config.training();
  training.set_dead_letter_reasons_only(config.server().dead_letter_reasons_only());
  MILLRACE_RETURN_IF_ERROR(CheckJob(features, training));
  MILLRACE_RETURN_IF_ERROR(registry.PublishTraining(training));
  return training;
}

// What is written at the end has to be known to fail at the start.
Status CheckPathsOfTheEnd(const Server& server) {
  if (server.has_snapshot_dir()) MILLRACE_RETURN_IF_ERROR(MakeSnapshotDir(server.snapshot_dir()));
  if (server.has_weights_file()) {
    MILLRACE_RETURN_IF_ERROR(CheckFolderExists(server.weights_file()));
  }
  std::error_code ignored;
  if (!server.has_test_file() || std::filesystem::exists(server.test_file(), ignored)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError("--test: there is no file " + server.test_file());
}

void StayUntilStopped(const std::atomic<bool>& stop) {
  while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

#ifdef MILLRACE_HAS_GLOO
Status Train(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             uint64_t generation, int64_t published_ms, const std::atomic<bool>& stop) {
  const MetricPoint::Setup setup = ServerSetup(config, features, training, published_ms);
  JobConfig at_end = config;
  at_end.mutable_server()->clear_server_ids();
  at_end.mutable_server()->clear_stay();
  at_end.mutable_server()->set_data_dir(config.worker().data_dir() + "/end");
  const EndJob end_job = [&] {
    return RunServer(at_end, features, training, generation, setup, stop);
  };
  return RunMember(config, features, training, setup, end_job, stop);
}
#else
Status Train(const JobConfig&, const JobFeatures&, const JobTraining&, uint64_t, int64_t,
             const std::atomic<bool>&) {
  return absl::UnimplementedError(
      "this WorkerApp was built without Gloo, by which processes train together: install "
      "libgloo-dev, and build it again; or train with servers");
}
#endif

}  // namespace

Status RunAllReduceWorker(JobConfig config, const JobFeatures& features, JobRegistry& registry,
                          const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckPathsOfTheEnd(config.server()));
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training,
                            PublishSettings(features, registry, config));
  MILLRACE_RETURN_IF_ERROR(PrepareTopics(config, training.shards(), stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry.ReadEnded());
  if (EveryShardEnded(ended, training.shards())) {
    spdlog::info("the job has ended: every worker has left");
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t generation, registry.Generation());
    MILLRACE_RETURN_IF_ERROR(
        Train(config, features, training, generation, registry.training_published_ms(), stop));
  }
  if (config.worker().stay()) StayUntilStopped(stop);
  return absl::OkStatus();
}

}  // namespace millrace
