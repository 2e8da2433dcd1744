#include "processors/worker_hosts.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace millrace {
namespace {

using Hosts = std::vector<WorkerHost>;

bool IsReady(const WorkerHost& host) { return host.ticks >= kReadyTicks; }

bool HasFewer(const WorkerHost& a, const WorkerHost& b) {
  return a.workers.size() < b.workers.size();
}

void Give(uint32_t worker, WorkerHost& host) {
  host.workers.insert(std::ranges::lower_bound(host.workers, worker), worker);
}

std::vector<uint32_t> WithoutHost(uint32_t workers, const std::set<uint32_t>& idle,
                                  const Hosts& hosts) {
  std::vector<bool> has_host(workers);
  for (const WorkerHost& host : hosts) {
    for (const uint32_t worker : host.workers) has_host.at(worker) = true;
  }
  std::vector<uint32_t> without;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    if (!has_host[worker] && !idle.contains(worker)) without.push_back(worker);
  }
  return without;
}

// The worker's home, if that is one of those with the fewest; else the first of these.
WorkerHost& HostFor(uint32_t worker, uint32_t processes, Hosts& hosts) {
  const bool is_any_ready = std::ranges::any_of(hosts, IsReady);
  WorkerHost* best = nullptr;
  for (WorkerHost& host : hosts) {
    if (is_any_ready && !IsReady(host)) continue;
    const bool is_as_good_and_home =
        best != nullptr && !HasFewer(*best, host) && host.rank == worker % processes;
    if (best == nullptr || HasFewer(host, *best) || is_as_good_and_home) best = &host;
  }
  MILLRACE_CHECK(best != nullptr);
  return *best;
}

// One that comes home; else one that is not at home; else the last.
uint32_t TakeFor(uint32_t rank, uint32_t processes, WorkerHost& from) {
  const auto find = [&](auto is_it) {
    return std::ranges::find_if(from.workers, [&](uint32_t w) { return is_it(w % processes); });
  };
  auto chosen = find([&](uint32_t home) { return home == rank; });
  if (chosen == from.workers.end()) {
    chosen = find([&](uint32_t home) { return home != from.rank; });
  }
  if (chosen == from.workers.end()) chosen = std::prev(chosen);
  const uint32_t worker = *chosen;
  from.workers.erase(chosen);
  return worker;
}

// Whether a worker had to move.
bool MoveOne(uint32_t processes, Hosts& hosts) {
  WorkerHost& from = *std::ranges::max_element(hosts, HasFewer);
  WorkerHost* to = nullptr;
  for (WorkerHost& host : hosts) {
    if (!IsReady(host) && host.ticks < from.ticks) continue;
    if (to == nullptr || HasFewer(host, *to)) to = &host;
  }
  if (to->workers.size() + 2 > from.workers.size()) return false;
  Give(TakeFor(to->rank, processes, from), *to);
  return true;
}

}  // namespace

void AssignWorkers(uint32_t workers, const std::set<uint32_t>& idle, uint32_t processes,
                   Hosts& hosts) {
  if (hosts.empty()) return;
  for (WorkerHost& host : hosts) {
    std::erase_if(host.workers,
                  [&](uint32_t worker) { return worker >= workers || idle.contains(worker); });
  }
  for (const uint32_t worker : WithoutHost(workers, idle, hosts)) {
    Give(worker, HostFor(worker, processes, hosts));
  }
  while (MoveOne(processes, hosts)) {
  }
}

}  // namespace millrace
