// The processes of a job: what is to run, what does, and what happens when one ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "processors/process_transitions.h"

namespace millrace {

// A fold of plans, reports of the launcher, ticks and stops. Whatever happens to a process is a row
// of the table of transitions (process_transitions.cc). After each event, what is and what is to be
// are compared, so nothing is remembered that is still to be done. Ticks stand for seconds. Pure;
// not thread-safe.
//
// Slots are given to the higher priority first, then by name. When none is free, one that waits
// takes the slot of the running one of the lowest priority below its own (of these the last by
// name): that one is stopped, and waits. It does not count as a failure.
//
// The logical workers of the group that has them are given to its processes in RUNNING
// (worker_hosts.h), to which of them follows from this state alone, too.
//
// A job without processes, which deals out tasks alone, goes on until it is stopped.
//
// The shards of the group that has them are dealt out over all its processes, whether these run or
// not: who dies is started again with them. A plan with another number of processes (or shards)
// deals them out again, and moves no more of them than that needs; otherwise a shard moves by
// MoveShard.
//
// A group of the job's end (at_end) waits until all processes of other groups have ended or failed
// for good, and then takes part like any other: the job has ended when these have, too. A plan that
// brings others back stops it again, unless it has ended.
//
// A job that is stopped, or has failed, stops the processes of the lowest priority first, and those
// of the next only when they are gone.
class ProcessTable {
 public:
  using Key = std::pair<std::string, uint32_t>;  // group and rank: the order of all lists
  using Processes = std::map<Key, ProcessState>;

  // A process that failed waits 1, 2, 4 .. so many ticks.
  static constexpr uint64_t kMostBackOff = 32;
  // After so many ticks of running its earlier failures are forgotten.
  static constexpr uint64_t kSteadyTicks = 60;
  // Failures and restarts of a process are counted up to here.
  static constexpr uint32_t kMostEndsCounted = uint32_t{1} << 30;

  static Key KeyOf(const ProcessName& name) { return {name.group(), name.rank()}; }

  // What is to run from now on. REQUIRES CheckPlan. An active job is not changed by the plan that
  // it has. Any other plan gives those that failed or were stopped another chance. Those that have
  // ended stay so, unless their command is another one now. FailedPrecondition, and nothing
  // changes: the job has ended, or more are still being stopped than may be.
  Status Apply(const ProcessPlan& plan);
  // REQUIRES a valid name and end. Reports of what is over, or known already, change nothing.
  // InvalidArgument, and nothing changes: that incarnation was never to be started.
  Status Report(const ProcessReport& report);
  void Tick();
  // FailedPrecondition: there is no plan.
  Status Stop();

  // Another process hosts the shard from now on; what it hosts already stays. InvalidArgument or
  // FailedPrecondition, and nothing changes: there is no such shard or process, or it has ended.
  Status MoveShard(const ShardMove& move);

  // The job is to go over to this layout of shards (JobSealed). Nothing changes when it has it
  // already, or is going over to it. InvalidArgument or FailedPrecondition, and nothing changes: no
  // process hosts shards, it is no such number, not the next layout, or the job is going over to
  // another one.
  Status Reshard(const ShardLayout& next);
  // The layout is in force: its shards are dealt out. One that is not later changes nothing.
  Status HaveLayout(const ShardLayout& layout);

  // The job has at least so many logical workers, whatever its plan says: others have joined. The
  // idle ones have nothing to do, and nobody hosts them.
  void HaveWorkers(uint32_t workers, std::set<uint32_t> idle);

  MasterState::Phase phase() const { return phase_; }
  const std::string& failure() const { return failure_; }
  uint64_t ticks() const { return ticks_; }
  // So many were to be started: a higher number is not known here.
  uint64_t incarnations() const { return incarnations_; }
  const Processes& processes() const { return processes_; }
  // How many shards the job is to go over to; 0: it has what it is to have.
  uint32_t next_shards() const { return next_shards_; }
  // Of the process's group; -1 when it is not in the plan.
  int64_t PriorityOf(const Key& key) const;
  // Whether the incarnation may be running, as far as is known here: it is the newest of the
  // process, and the process is in STARTING, RUNNING or STOPPING.
  bool MayRun(const Key& key, uint64_t incarnation) const;

  // The processes that have changed, come or gone since the last call.
  std::set<Key> TakeChanged() { return std::exchange(changed_, {}); }

  // All but the processes. The fields of the log (epoch, next_offset, unusable) are left alone.
  void Save(MasterState& state) const;
  // REQUIRES an empty table. InvalidArgument with the reason why this was never saved.
  // `workers` and `idle`: as HaveWorkers was told.
  Status Load(const MasterState& state, Processes processes, uint32_t workers = 0,
              std::set<uint32_t> idle = {});

 private:
  const ProcessGroup* GroupOf(const Key& key) const;  // null: it is not in the plan
  size_t CountWith(const ProcessPlan& plan) const;
  void IndexGroups();
  void AddWanted();
  // `before`: the plan before, and how many shards its group had.
  void DealShards(const ProcessPlan& before, uint32_t shards_before);
  // Of the plan's group that has shards; 0: there is none.
  uint32_t ShardsNow() const;
  Status CheckLayout() const;
  ProcessEvent EventOf(const ProcessReport& report, const ProcessState& process) const;
  void Move(ProcessState& process, ProcessEvent event);
  void Begin(ProcessState& process);

  // Compares what is with what is to be, until there is nothing more to do.
  void Settle();
  void RemoveUnwanted();
  void FailIfTooFewAreLeft();
  bool MayRunYet(const Key& key) const;
  void StopOutdated();
  void StopSurplus();
  void StartWaiting();
  void StopLowest();
  void HostWorkers();
  bool MayHost(const ProcessState& process) const;
  uint32_t WorkersOf(const ProcessGroup& group) const;
  void EndIfOver();
  // Of those in STARTING and RUNNING; null: none is below.
  ProcessState* LowestBelow(int64_t priority);
  size_t Count(bool (*is)(ProcessState::Phase)) const;
  // Null: every group has as many left as the job needs.
  const ProcessGroup* GroupWithTooFew() const;
  std::string FailureOf(const ProcessGroup& group) const;

  Status Check() const;
  Status CheckJob() const;
  Status CheckProcess(const Key& key, const ProcessState& process) const;
  Status CheckWorkers() const;
  Status CheckShards() const;

  MasterState::Phase phase_ = MasterState::IDLE;
  ProcessPlan plan_;
  std::map<std::string, int> groups_;  // the places in the plan, by name
  std::string failure_;
  uint64_t ticks_ = 0;
  uint64_t incarnations_ = 0;
  uint32_t workers_ = 0;  // that have joined, and those before them
  std::set<uint32_t> idle_workers_;
  Processes processes_;
  std::optional<ShardLayout> layout_;  // none: that of the plan, 0
  uint32_t next_shards_ = 0;
  std::set<Key> changed_;
};

}  // namespace millrace
