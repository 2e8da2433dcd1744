// The WorkerApps and ServerApps of a simulated job: they read `plan`, and host what it gives them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/master_machine.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/planned_hosts.h"

namespace millrace::simulation {

class WorkerApps {
 public:
  explicit WorkerApps(MasterError error) : error_(error) {}

  // What was committed to `plan`; all that run have read it.
  void Read(const PlanChanges& changes, const std::vector<MasterMachine::Life*>& running);
  // Empty, or what is wrong with who hosts what now that all is at rest.
  std::string WhatIsWrong(uint32_t logical_workers,
                          const std::vector<MasterMachine::Life*>& running) const;
  // The same of shards. `moved`: the ranks to which users have moved shards since
  // these were dealt out.
  std::string WhatIsWrongWithShards(const std::map<uint32_t, uint32_t>& moved,
                                    const std::vector<MasterMachine::Life*>& running) const;
  // Whether a worker has ever moved from one that ran on to another.
  bool has_seen_move() const { return has_seen_move_; }

 private:
  using Key = std::pair<std::string, uint64_t>;  // name and incarnation

  const MasterError error_;
  PlannedHosts plan_;
  std::map<Key, std::set<int32_t>> hosted_;
  std::map<Key, std::vector<uint32_t>> shards_;
  bool has_seen_move_ = false;
};

}  // namespace millrace::simulation
