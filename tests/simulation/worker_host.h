// A worker process as the simulator runs it: production WorkerTasks for the partitions it has.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tasks/shared_weights_reader.h"
#include "tasks/worker_feed.h"
#include "tasks/worker_task.h"
#include "tests/simulation/worker_process.h"

namespace millrace::simulation {

class WorkerHost : public WorkerProcess {
 public:
  // Uses the disk until it dies.
  WorkerHost(World& world, std::shared_ptr<Disk> disk);

  bool Step() override;
  void Die() override;

  void Assign(WorkerId worker) override;
  void Revoke(WorkerId worker, bool lost) override;
  void Lose(WorkerId worker) override;
  bool Has(WorkerId worker) const override { return tasks_.contains(worker); }
  bool FollowPlan() override;
  size_t task_count() const { return tasks_.size(); }

  void RepeatAll() override;
  void CommitAll() override;
  void SaveAll() override;

  bool left(WorkerId worker) const override { return task(worker).left(); }
  Offset next_row(WorkerId worker) const override { return tasks_.at(worker).next_row; }
  std::string Describe(WorkerId worker) const override;
  const WorkerTask& task(WorkerId worker) const { return *tasks_.at(worker).task; }
  const std::shared_ptr<Disk>& disk() const { return disk_; }

 protected:
  struct Hosted {
    std::unique_ptr<WorkerTask> task;
    std::optional<WorkerFeed> feed;
    bool is_held = false;  // the reader of rows
    Offset next_row = 0;
    Offset next_weights = 0;
    bool lost = false;
    size_t plan_seen = 0;  // records of the worker
    uint64_t joined = 0;
  };

  // The record that has the position's row after others; null: it has it first, or is not there.
  const LogRecord* RecordAround(WorkerId worker, const InputPosition& position) const;

  // The seams: what a planted error may say, or commit, otherwise.
  virtual WorkerOptions Options(WorkerId worker) const {
    return MakeWorkerOptions(world_.scenario, worker);
  }
  virtual void Change(std::vector<OutgoingRecord>&) const {}
  virtual std::string ReadOf(WorkerId, const std::string& weights) const { return weights; }
  virtual std::optional<InputPosition> PositionToCommit(const WorkerTask&,
                                                        std::optional<InputPosition> right) const {
    return right;
  }
  virtual Status CheckGone(const Hosted& hosted, WorkerFeed::Range rows) const {
    return hosted.feed->RowsAreGone(rows);
  }
  virtual bool Obeys(bool /*hold*/) const { return true; }
  // What is hosted of a partition that was revoked; or of one that was assigned, when it is known
  // from where it is read.
  virtual void Revoked(WorkerId, Hosted) {}
  virtual void Assigned(WorkerId, Hosted&) {}
  // Where it begins to read what all workers read: before it asks, so that it misses nothing.
  virtual Offset FirstShared() const;

 private:
  WorkerFeed::Range RowsOf(WorkerId worker) const;
  void AssignFrom(WorkerId worker, const std::optional<WorkerFeed::Committed>& committed);
  void Trim(Topic topic, int32_t partition, std::optional<Offset> end);
  bool ReadRows(WorkerId worker, Hosted& hosted);
  bool ReadLeased(WorkerId worker, Hosted& hosted);
  bool ReadWeights(WorkerId worker, Hosted& hosted);
  // What all workers of the process read once.
  bool ReadShared();
  void TakeShared(const LogRecord& record);
  // What has come by pipes, or opens one.
  bool ReadStraight();
  void TakeStraight(const OutgoingRecord& record);
  std::set<WorkerId> Workers() const;
  void Advance(WorkerId worker, Hosted& hosted);
  void Commit(WorkerId worker, Hosted& hosted);
  void Save(Hosted& hosted);
  void SendFrom(WorkerId worker);
  void Failed(WorkerId worker, const Hosted& hosted, const char* where, const Status& status);

  std::shared_ptr<Disk> disk_;
  std::map<WorkerId, Hosted> tasks_;
  SharedWeightsReader shared_;
  Offset next_shared_ = 0;  // while there are tasks
  std::vector<OutgoingRecord> out_;
};

}  // namespace millrace::simulation
