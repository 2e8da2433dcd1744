#include "apps/master_topology.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/topology.h"
#include "base/listening.h"
#include "master/job_processes.h"

namespace millrace {
namespace {

Status CheckCount(const char* flag, uint32_t given, uint32_t wanted, const char* entries) {
  if (given == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", given, " contradicts the topology (--topology), which has ", wanted,
                   " entries ", entries, ". Leave ", flag, " out, or change the topology"));
}

// `threads`: of the processes 0, 1 .. `later`: how a job may come to have others.
Status CheckDealtOut(const char* entry, const char* what, const std::vector<uint32_t>& threads,
                     const char* later) {
  if (IsDealtOutEvenly(threads)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "topology: its entries ", entry, " have ", absl::StrJoin(threads, ", "),
      " threads, in the order of their ids, but MasterApp gives each of these processes equally "
      "many ",
      what, ", or the first ones one more: let all entries ", entry,
      " have the same number of threads, or those with the lowest ids one more", later));
}

Status CheckThreads(const Topology& topology, const MasterFlags& flags) {
  std::vector<uint32_t> servers(topology.server_size());
  for (const ServerConfig& server : topology.server()) servers[server.id()] = server.threads();
  MILLRACE_RETURN_IF_ERROR(CheckDealtOut("server", "shards", servers,
                                         "; MasterApp move can move shards while the job runs"));
  std::vector<uint32_t> workers(topology.worker_size());
  for (const WorkerConfig& worker : topology.worker()) {
    workers[worker.global_id()] = worker.threads();
  }
  if (!flags.worker_command.empty() &&
      std::ranges::any_of(workers, [](uint32_t n) { return n > 1; })) {
    return absl::InvalidArgumentError(
        "topology: a worker has more than one thread, and a process of --worker-command is one "
        "worker: give an entry worker for each, with threads 1");
  }
  return CheckDealtOut("worker", "logical workers", workers, "");
}

}  // namespace

Status TakeTopology(const JobConfig& config, MasterFlags& flags) {
  if (!config.has_topology()) return absl::OkStatus();
  const Topology& topology = config.topology();
  if (flags.launcher == kKubernetesLauncher) {
    return absl::InvalidArgumentError(
        "--topology has the addresses of servers on this machine, and pods have others: leave it "
        "or "
        "--launcher kubernetes out");
  }
  const auto servers = static_cast<uint32_t>(topology.server_size());
  const auto workers = static_cast<uint32_t>(topology.worker_size());
  if (flags.server_processes) {
    MILLRACE_RETURN_IF_ERROR(
        CheckCount("--server-processes", *flags.server_processes, servers, "server"));
  }
  if (flags.has_worker_processes) {
    MILLRACE_RETURN_IF_ERROR(
        CheckCount("--worker-processes", flags.worker_processes, workers, "worker"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckThreads(topology, flags));
  for (const ServerConfig& server : topology.server()) {
    JobConfig listening = config;
    MILLRACE_RETURN_IF_ERROR(ListenAsInTopology(server.id(), listening));
  }
  flags.server_processes = servers;
  flags.worker_processes = workers;
  return absl::OkStatus();
}

Status CheckAddresses(const Topology& topology, Launcher& launcher) {
  if (topology.server().empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ProcessReport> processes, launcher.Look());
  std::set<uint32_t> running;
  for (const ProcessReport& process : processes) {
    if (process.process().group() == GroupOf(JobProgram::kServer) && !process.has_end()) {
      running.insert(process.process().rank());
    }
  }
  for (const ServerConfig& server : topology.server()) {
    if (running.contains(server.id())) continue;
    const Status free = CheckCanListen(server.ip(), server.port());
    if (free.ok()) continue;
    return absl::FailedPreconditionError(absl::StrCat("topology: server ", server.id(), ": ",
                                                      AddressOf(server), " ", free.message()));
  }
  return absl::OkStatus();
}

}  // namespace millrace
