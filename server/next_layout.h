// From one layout of a job's shards (JobSealed) to the next.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "job/job_registry.h"
#include "kafka/admin.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "processors/server_options.h"
#include "tasks/checkpoint.h"

namespace millrace {

// The first checkpoint of a shard of the layout `training.layout()`, which is above 0: from the
// sealed checkpoints of all shards of the layout before. Each of these is read into memory, one
// after the other. `options`: of the shard. `registry`: of the job. DataLoss when they are not
// there. Cancelled when stopped.
StatusOr<Checkpoint> ReadSealedLayout(const JobConfig& config, const JobFeatures& features,
                                      const JobTraining& training, const ServerOptions& options,
                                      JobRegistry& registry, const std::atomic<bool>& stop);

// Removes the stores that this process has of the layouts before config.layout(), of which
// `layouts` are all (JobRegistry::ReadLayouts): `parameters` has what is needed of them. Errors are
// logged. REQUIRES: this process has none of them open.
void RemoveStoresOfLayoutsBefore(const JobConfig& config, const std::vector<uint32_t>& layouts);

// Deletes the topics of the layouts before, when every shard of this layout has its first
// checkpoint, and a while after that was begun: slow processes may still read them. (Of a layout
// that the job had for a shorter time nobody has deleted those before it.) For the process that
// hosts shard 0; not thread-safe.
class EarlierLayouts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  EarlierLayouts(const JobConfig& config, const JobTraining& training,
                 const std::atomic<bool>& stop)
      : config_(config),
        training_(training),
        stop_(stop),
        is_gone_(training.layout() == 0),
        next_look_(std::chrono::steady_clock::now() + kGrace) {}

  // Looks now and then until it is done. What goes wrong is logged: a topic that stays takes room,
  // and no more.
  void Tick(Time now) {
    if (now >= next_look_) Look();
  }
  // The job has ended: nobody reads them any more.
  void End() { Look(); }

 private:
  static constexpr std::chrono::seconds kGrace{10};

  void Look();
  StatusOr<bool> HasEveryShardBegun();
  // Adds the topics that there are of earlier layouts to `topics`.
  Status Delete(std::vector<std::string>& topics);

  const JobConfig& config_;
  const JobTraining& training_;
  const std::atomic<bool>& stop_;
  bool is_gone_;
  bool is_told_ = false;
  Time next_look_;
};

}  // namespace millrace
