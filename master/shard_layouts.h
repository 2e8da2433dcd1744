// How a job goes over to another number of shards, as its master does it (docs/master.md).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "base/status.h"
#include "job/job_registry.h"
#include "master/repeated_order.h"
#include "messages/job.pb.h"
#include "messages/master.pb.h"

namespace millrace {

// Used by one thread. All is made from the master's state, so it may be begun again at any time.
class ShardLayouts {
 public:
  // References outlive it.
  ShardLayouts(const JobConfig& config, const std::atomic<bool>& stop);

  // The layout of shards that is in force, if the state does not know it: looked up until the job
  // has begun, and then a few times a second while it is going over to another. None while no
  // broker answers. Errors are those of JobRegistry.
  StatusOr<std::optional<ShardLayout>> Look(const MasterState& state);
  // Tells shard 0, now and then, that the job is to go over to another number of shards, as long as
  // it is. REQUIRES that `plan` has the state. Errors are RepeatedOrder::Tick's.
  Status Order(const MasterState& state);

 private:
  using Time = std::chrono::steady_clock::time_point;

  // False also while no broker answers. (Who may not see it finds out as he reads it.)
  StatusOr<bool> IsTopicThere() const;

  const JobConfig& config_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<JobRegistry> registry_;
  bool has_looked_ = false;  // at a job that has begun
  bool is_denied_ = false;   // and that is told
  Time next_look_;
  RepeatedOrder order_;
};

}  // namespace millrace
