// What a master has to say of its processes, data sets, nodes and leases: sentences, tables, JSON.
// Pure.
#pragma once

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

std::vector<JobTaskSet> TaskSetsOf(const TaskManager& tasks);
std::vector<MemberState> NodesOf(const JobNodes& nodes);
std::optional<JobLeases> LeasesOf(const LeaseTable& leases);

// A sentence for each process that has begun to run, ended or is being stopped since `before`, for
// each shard that has moved, each data set that has begun, is done or has lost a task, for each
// node that has joined, died or left, for leases when they begin and when there is no further row,
// and for the job's phase. Without an end of line.
std::vector<std::string> News(const JobProcesses& before, const JobProcesses& now);

// The same of what a person should look after: servers that nobody trains with any more.
std::vector<std::string> NewWarnings(const JobProcesses& before, const JobProcesses& now);

// The job's phase, and a line for each process: name, phase, what it hosts, incarnation,
// restarts, for how long, how it ended last; and a line for each data set, each node, and each
// worker that has leases, if there is one; last what is to be said of the model. ASCII; ends with
// an end of line.
std::string StatusTable(const std::string& job, const JobProcesses& now);

// The same for programs (docs/master.md), with an end of line.
std::string StatusJson(const std::string& job, const JobProcesses& now);

}  // namespace millrace
