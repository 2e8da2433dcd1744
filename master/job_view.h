// A job as its master sees it: processes, data sets, nodes and leases, and what follows from them.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/leases.pb.h"
#include "messages/master.pb.h"
#include "processors/job_nodes.h"
#include "processors/lease_table.h"
#include "processors/task_manager.h"

namespace millrace {

// A data set that is dealt out as tasks (docs/tasks.md).
struct JobTaskSet {
  TaskSetState state;
  size_t open = 0;  // tasks that are dealt out and not done
};

// Rows of input-data that are leased to workers (docs/leases.md).
struct JobLeases {
  uint64_t cut_rows = 0;  // leased, or free
  uint64_t free_ranges = 0;
  bool ended = false;    // no further row will come
  bool is_over = false;  // and all are leased
  uint32_t size = 0;     // workers that the job is to have,
  uint32_t most_workers = 0;
  bool is_resizing = false;  // and does not have yet, or has more
  std::vector<WorkerLeases> workers{};
};

// A job's processes, data sets and nodes, as the records of `plan` have them.
struct JobProcesses {
  MasterState state;
  std::vector<ProcessState> processes;  // by name
  std::vector<JobTaskSet> task_sets;    // by name
  std::vector<MemberState> nodes{};     // by role and rank (docs/nodes.md)
  std::optional<JobLeases> leases{};    // none: rows are not leased
  // What the job's figures say of a model that is worse than the prior (model_quality.h): not of
  // `plan`. None: it is not, or it is not known.
  std::optional<std::string> worse_than_prior{};
  // Since a master has written to `plan`, by the clocks of its machine and of this one: of a reader
  // of `plan`. A running master does each second.
  uint64_t silent_s = 0;
};

// Parts of a JobProcesses, in its order, from the parts of a master's fold.
std::vector<JobTaskSet> TaskSetsOf(const TaskManager& tasks);
std::vector<MemberState> NodesOf(const JobNodes& nodes);
// None: rows are not leased.
std::optional<JobLeases> LeasesOf(const LeaseTable& leases);

// For how many seconds the process has been in its phase: of those in which the job had a running
// master, as MasterState.ticks counts them.
uint64_t SecondsIn(const ProcessState& process, const MasterState& state);

// How many ticks of a running master, one each second, have come since the node's last sign of
// life.
uint64_t TicksSinceSign(const MemberState& node, const MasterState& state);

// How many tasks of the set are done, of all epochs; those that were given up are not.
int64_t DoneIn(const JobTaskSet& set);

// Whether all tasks of the set, of all epochs, are done or given up.
bool IsOver(const JobTaskSet& set);

// Whether the job should have a master, as it runs or is being stopped, and none has written to
// `plan` for 10 seconds.
bool IsMasterSilent(const JobProcesses& now);

// Servers that run though the processes of --worker-command have all ended with exit code 0.
// (WorkerApps leave the job before they end, and CsvProducer ends when it has sent all rows.)
struct ServersAlone {
  std::string ended{};  // names of these, "worker-0, worker-1"
  uint64_t for_s = 0;   // since the last of them ended (SecondsIn)
};

// None: the job does not run, no server does, there are no such processes, one of them has not
// ended in this way, or the last one did less than 30 seconds ago (SecondsIn).
std::optional<ServersAlone> FindServersAlone(const JobProcesses& now);

}  // namespace millrace
