// What `plan` says of the leases of workers, as WorkerApp reads it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/leases.pb.h"

namespace millrace {

// A fold of the records of `plan`. Pure.
class PlannedLeases {
 public:
  // Records of other keys, and those that cannot be read, are left out: of the latter the newest
  // that could be counts. A null value is one of them: no such record is ever taken back.
  void Take(std::string_view key, std::string_view value);

  // The worker's newest record; null: there is none. Valid until the next Take.
  const WorkerLeases* Of(uint32_t worker) const;
  // The partitions, of those that have ended, of which the worker reads what is behind the last
  // rows when its leases are the last (LeasedRows). Those that have a part in it take turns.
  std::vector<InputState> TailsOf(uint32_t worker) const;
  // The workers with another record than at the last call.
  std::set<uint32_t> TakeChanged() { return std::exchange(changed_, {}); }

 private:
  std::map<uint32_t, WorkerLeases> workers_;
  std::map<uint32_t, InputState> inputs_;
  std::set<uint32_t> changed_;
};

}  // namespace millrace
