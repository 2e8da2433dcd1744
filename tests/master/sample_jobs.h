// Jobs as their master sees them, for tests of what is said of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "master/job_view.h"
#include "messages/leases.pb.h"
#include "messages/master.pb.h"

namespace millrace {

// worker-0.
inline ProcessState Process(ProcessState::Phase phase, uint64_t incarnation) {
  ProcessState process;
  process.mutable_process()->set_group("worker");
  process.set_phase(phase);
  process.set_incarnation(incarnation);
  return process;
}

inline ProcessState Ended(ProcessState process, ProcessEnd::Cause cause, int code) {
  process.mutable_last_end()->set_cause(cause);
  process.mutable_last_end()->set_code(code);
  return process;
}

// After 100 ticks. Its logs are in /run/flights/logs.
inline JobProcesses Job(std::vector<ProcessState> processes,
                        MasterState::Phase phase = MasterState::ACTIVE) {
  JobProcesses job;
  job.state.set_phase(phase);
  job.state.set_ticks(100);
  ProcessGroup& group = *job.state.mutable_plan()->add_groups();
  group.add_command("/opt/WorkerApp");
  group.set_name("worker");
  job.state.mutable_plan()->set_run_dir("/run/flights");
  job.processes = std::move(processes);
  return job;
}

inline ProcessState Running() { return Process(ProcessState::RUNNING, 3); }

inline ProcessState ServerWith(uint32_t rank, std::initializer_list<uint32_t> shards) {
  ProcessState server = Running();
  server.mutable_process()->set_group("server");
  server.mutable_process()->set_rank(rank);
  for (const uint32_t shard : shards) server.add_shards(shard);
  return server;
}

// Trainers of one's own, which began with servers.
inline JobProcesses JobOfTrainers(std::vector<ProcessState> trainers, uint64_t ticks) {
  JobProcesses job = Job({ServerWith(0, {0})});
  job.state.set_ticks(ticks);
  ProcessGroup& servers = *job.state.mutable_plan()->add_groups();
  servers.set_name("server");
  servers.set_shards(1);
  for (ProcessState& trainer : trainers) job.processes.push_back(std::move(trainer));
  return job;
}

// 20 tasks in 2 epochs; one task may fail 3 times.
inline JobTaskSet Set(int64_t dealt, size_t open, uint64_t given_up = 0) {
  JobTaskSet set;
  TaskSetSpec& spec = *set.state.mutable_spec();
  spec.set_name("numbers");
  spec.set_records(100);
  spec.set_records_per_task(10);
  spec.set_epochs(2);
  spec.set_most_failures(3);
  set.state.set_dealt(dealt);
  set.state.set_given_up(given_up);
  if (given_up > 0) set.state.set_last_failure("no such file");
  set.open = open;
  return set;
}

inline JobProcesses With(const JobTaskSet& set) {
  JobProcesses job = Job({});
  job.task_sets.push_back(set);
  return job;
}

// ps-2, which has given its last sign at tick 90.
inline MemberState Node(MemberState::Phase phase, uint64_t incarnation = 1) {
  MemberState node;
  node.set_role("ps");
  node.set_rank(2);
  node.set_instance("8c3f");
  node.set_address("10.0.0.5:7000");
  node.set_incarnation(incarnation);
  node.set_phase(phase);
  node.set_last_sign_tick(90);
  node.set_timeout_ticks(30);
  return node;
}

inline JobProcesses With(const MemberState& node) {
  JobProcesses job = Job({});
  job.nodes.push_back(node);
  return job;
}

// Of 1 worker, with the number 1. `ended`: no further row will come.
inline JobProcesses WithLeases(bool ended) {
  JobProcesses job = Job({});
  WorkerLeases worker;
  worker.set_worker(1);
  worker.set_next_number(3);
  worker.set_next_row(150);
  worker.set_counted_rows(90);
  worker.add_open();
  job.leases = JobLeases{.cut_rows = 250,
                         .free_ranges = 2,
                         .ended = ended,
                         .size = 1,
                         .most_workers = 16,
                         .workers = {worker}};
  return job;
}

}  // namespace millrace
