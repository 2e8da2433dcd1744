// Who trains, as the simulation sees it: a process that has some of the job's workers.
#pragma once

#include <optional>
#include <string>

#include "base/types.h"
#include "tests/simulation/host.h"

namespace millrace::simulation {

class WorkerProcess : public Host {
 public:
  using Host::Host;

  void DeliveryFailed() final { RepeatAll(); }

  // The group gives it a partition.
  virtual void Assign(WorkerId worker) = 0;
  // The group takes a partition away. `lost`: it was told too late to commit.
  virtual void Revoke(WorkerId worker, bool lost) = 0;
  // The group has given the partition to another, but this process does not know it yet.
  virtual void Lose(WorkerId worker) = 0;
  virtual bool Has(WorkerId worker) const = 0;
  // Where the job goes over to other shards: takes a trainer of one's own along.
  virtual std::optional<GoingTrainer> TakeTrainer(WorkerId /*worker*/) { return std::nullopt; }
  // Where workers change: the plan is read further, by chance. Returns whether it was.
  virtual bool FollowPlan() { return false; }

  // What timers lead to.
  virtual void RepeatAll() = 0;
  virtual void CommitAll() {}
  virtual void SaveAll() {}

  // Of a worker that it has.
  virtual bool left(WorkerId worker) const = 0;
  virtual Offset next_row(WorkerId worker) const = 0;  // where it reads rows
  virtual std::string Describe(WorkerId worker) const = 0;

  // It cannot go on: its disk has refused what it was to keep, or a task of it has failed.
  bool must_stop() const { return must_stop_; }

 protected:
  bool must_stop_ = false;
};

}  // namespace millrace::simulation
