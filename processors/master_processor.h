// The master of a job: a fold over `control`. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/master.pb.h"
#include "processors/job_nodes.h"
#include "processors/lease_table.h"
#include "processors/process_orders.h"
#include "processors/process_table.h"
#include "processors/task_manager.h"

namespace millrace {

// `control` is to `plan` what `gradients` is to `parameters`: the state after any record is a pure
// function of the records up to it. Orders are made from the state (law 2): a master that was
// killed before it carried one out has a successor that makes it again. Reports are made by
// comparing what a launcher sees with the state, so none is remembered either.
//
// Orders, Over: only of a state that `plan` has. Not thread-safe; a copy is another master.
class MasterProcessor {
 public:
  explicit MasterProcessor(uint64_t epoch) : epoch_(epoch) {}
  // From the records of `plan`, by key, the newest of each; no tombstones. None: of a job that has
  // no plan yet. InvalidArgument, with the remedy: one of them is no such record, is of another job
  // epoch, or they do not belong together.
  static StatusOr<MasterProcessor> Restore(uint64_t epoch,
                                           const std::map<std::string, std::string>& plan);

  // Folds the record of `control` at this offset. One before next_offset() is left out. One that
  // cannot be used (bad bytes, another epoch, a plan that CheckPlan or an ended job refuses, an
  // incarnation that was never to be started, a task of a set that is not known, rows that nobody
  // can lease) changes nothing but next_offset(), MasterState.unusable and, of a command about
  // tasks, its number; the returned sentence says why. Otherwise it is empty, also for reports that
  // are repeated or of earlier incarnations, which change nothing, and for what nodes say and are
  // refused. REQUIRES offset >= 0.
  std::string Fold(Offset offset, std::string_view value);

  // The same, but the record changes nothing else than next_offset().
  void Skip(Offset offset);

  Offset next_offset() const { return next_offset_; }
  MasterState::Phase phase() const { return table_.phase(); }
  MasterState state() const;
  std::vector<ProcessState> processes() const;  // by group and rank
  const TaskManager& tasks() const { return tasks_; }
  const JobNodes& nodes() const { return nodes_; }
  const LeaseTable& leases() const { return leases_; }

  // In the following, `seen` is all that a launcher sees: each incarnation that it started and has
  // not been told to forget. It was looked at after the last Fold: otherwise what has begun since
  // would be taken for gone.
  //
  // What the launcher is to do now. STOP for each process in STOPPING that is not seen to have
  // ended, lowest priority first, and for whatever is seen to run though its end is known here.
  // Then START for each process in STARTING that is not seen, highest priority first, while no
  // other incarnation of it is seen to run. Incarnations that are not known here are left alone: a
  // newer master has started them.
  std::vector<ProcessOrder> Orders(const std::vector<ProcessReport>& seen) const {
    return OrdersOf(table_, seen);
  }
  // What of it the state does not know: records for `control`. A process in RUNNING that is not
  // seen any more has ended, nobody knows how.
  std::vector<ControlRecord> Reports(const std::vector<ProcessReport>& seen) const;
  // What of it has ended, as the state knows: to be forgotten, by Forget(process, incarnation + 1).
  std::vector<ProcessReport> Over(const std::vector<ProcessReport>& seen) const {
    return OverIn(table_, seen);
  }

  // The records of `plan` that have changed since the last call: key, value; no value is a
  // tombstone. With "state" when anything was folded. To be written again when the transaction
  // fails, or the state is not what `plan` has.
  std::vector<std::pair<std::string, std::optional<std::string>>> TakeChanges();

 private:
  Status Apply(const ControlRecord& record);
  Status Apply(const ProcessReport& report);
  void AddNodeChanges(std::vector<std::pair<std::string, std::optional<std::string>>>& changes);
  void AddLeaseChanges(std::vector<std::pair<std::string, std::optional<std::string>>>& changes);

  uint64_t epoch_;
  Offset next_offset_ = 0;
  uint64_t unusable_ = 0;
  bool changed_ = false;  // since TakeChanges
  ProcessTable table_;
  TaskManager tasks_;
  JobNodes nodes_;
  LeaseTable leases_;
};

}  // namespace millrace
