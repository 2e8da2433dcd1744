#include "apps/all_reduce_worker.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "apps/all_reduce_checks.h"
#include "apps/publish_settings.h"
#include "apps/run_setup.h"
#include "apps/server_paths.h"
#include "apps/version.h"
#include "base/error_marks.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_model.h"
#include "durability/snapshots/snapshot_request.h"
#include "job/job_topics.h"
#include "server/server_loop.h"
#include "tasks/task_options.h"
#include "topics/most_workers.h"
#ifdef MILLRACE_HAS_GLOO
#include "members/member_loop.h"
#endif

namespace millrace {
namespace {

using EndOfJob = std::function<Status()>;

// The same defaults as those of a job with servers.
Status SetSettings(const JobFeatures& features, JobRegistry& registry, JobConfig& config) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> begun, registry.ReadTraining());
  if (begun) SetDefaultsAsBegun(begun->training(), *config.mutable_training());
  SetDefaults(*config.mutable_training());
  MILLRACE_RETURN_IF_ERROR(CheckModel(features, config.training()));
  return CheckAllReduceFeatures(features, config.training());
}

void StayUntilStopped(const std::atomic<bool>& stop) {
  while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// What a server is given, for the end of the job.
JobConfig ConfigOfTheEnd(const JobConfig& config) {
  JobConfig at_end = config;
  at_end.mutable_server()->clear_server_ids();
  at_end.mutable_server()->clear_stay();
  at_end.mutable_server()->set_data_dir(config.worker().data_dir() + "/end");
  return at_end;
}

// Something that was to be written at the end is not there: the disk was full, say, or the process
// was killed after it had published the end.
bool EndIsMissing(const JobConfig& config) {
  std::error_code ignored;
  const auto is_missing = [&](const std::string& path) {
    return !std::filesystem::exists(path, ignored);
  };
  const Server& server = config.server();
  if (server.has_weights_file() && is_missing(server.weights_file())) return true;
  if (!server.has_snapshot_dir()) return false;
  const std::string last = SnapshotFolder(config, 0);
  return is_missing(ManifestPath(last)) || is_missing(SnapshotModelFolder(last));
}

// Whatever it does it does again, to the same bytes.
Status RepeatEnd(const EndOfJob& end) {
  spdlog::info(
      "the job has ended, but its weights file, or its last snapshot, is missing: this process "
      "writes them again");
  Status status = end();
  if (!IsFenced(status)) return status;
  spdlog::info("another process writes them");
  return absl::OkStatus();
}

#ifdef MILLRACE_HAS_GLOO
Status Train(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             const MetricPoint::Setup& setup, const EndOfJob& end, uint64_t generation,
             JobRegistry& registry, const std::atomic<bool>& stop) {
  MemberCalls calls;
  calls.end_job = end;
  calls.has_ended = [&]() -> StatusOr<bool> {
    MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry.ReadEnded());
    return EveryShardEnded(ended, training.shards());
  };
  const std::string about = "job " + config.name() + ", whose topics have generation " +
                            std::to_string(generation) + ", in Millrace " + MillraceVersion();
  return RunMember(config, features, training, setup, calls, about, stop);
}
#else
Status Train(const JobConfig&, const JobFeatures&, const JobTraining&, const MetricPoint::Setup&,
             const EndOfJob&, uint64_t, JobRegistry&, const std::atomic<bool>&) {
  return absl::UnimplementedError(
      "this WorkerApp was built without Gloo, which --distribution-strategy AllReduce needs: "
      "install libgloo-dev, and build it again; or train with servers");
}
#endif

}  // namespace

Status RunAllReduceWorker(JobConfig config, const JobFeatures& features, JobRegistry& registry,
                          JobTopics& topics, const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckServerPaths(ConfigOfTheEnd(config)));
  MILLRACE_RETURN_IF_ERROR(SetSettings(features, registry, config));
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training,
                            PublishSettings(config, features, "", registry));
  MILLRACE_RETURN_IF_ERROR(topics.PrepareLayout(
      config, TopicSizesOf(training.training(), features.workers(), training.shards())));
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry.ReadEnded());
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t generation, registry.Generation());
  const JobConfig at_end = ConfigOfTheEnd(config);
  const MetricPoint::Setup setup =
      ServerSetup(config, features, training, registry.training_published_ms());
  const EndOfJob end = [&] {
    return RunServer(at_end, features, training, registry, topics, setup, {}, stop);
  };
  if (!EveryShardEnded(ended, training.shards())) {
    MILLRACE_RETURN_IF_ERROR(
        Train(config, features, training, setup, end, generation, registry, stop));
  } else if (EndIsMissing(at_end)) {
    MILLRACE_RETURN_IF_ERROR(RepeatEnd(end));
  } else {
    spdlog::info("the job has ended: every worker has left");
  }
  if (config.worker().stay()) StayUntilStopped(stop);
  return absl::OkStatus();
}

}  // namespace millrace
