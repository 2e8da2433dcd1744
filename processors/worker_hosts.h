// Which processes host which logical workers, as a master's plan has it. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace millrace {

// A process that runs.
struct WorkerHost {
  uint32_t rank = 0;                // of its group, each once
  uint64_t ticks = 0;               // for which it has run
  std::vector<uint32_t> workers{};  // ascending
};

// A process that has begun to run is not ready at once: it has to log in, and to read the job's
// settings. Until then a worker does better where it is.
inline constexpr uint64_t kReadyTicks = 3;

// Gives the logical workers [0, workers) but the idle ones to the hosts. A worker without a host
// goes to the ready host with the fewest workers (if no host is ready: to any host with the
// fewest). Then, while the host with the most workers has at least two more than another host, it
// gives one of them to that host, provided that host is ready or has run for at least as long. So
// the counts differ by one at most when all are ready, no worker moves without need, and a second
// call changes nothing. Where there is a choice, worker W goes to the host of rank W % processes,
// its home, where its files may be.
//
// A host loses what it has beyond these: idle workers, and those of a job that had more.
//
// REQUIRES: hosts by rank, below `processes`; each worker is at one host at most. No hosts: nobody
// has the workers.
void AssignWorkers(uint32_t workers, const std::set<uint32_t>& idle, uint32_t processes,
                   std::vector<WorkerHost>& hosts);

}  // namespace millrace
