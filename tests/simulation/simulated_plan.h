// The topics of a simulated master: records of `control`, and what `plan` holds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topics/control_codec.h"

namespace millrace::simulation {

inline constexpr uint64_t kMasterEpoch = 1;

using PlanRecords = std::map<std::string, std::string>;  // by key
using PlanChanges = std::vector<std::pair<std::string, std::optional<std::string>>>;

inline void WriteTo(PlanRecords& plan, const PlanChanges& changes) {
  for (const auto& [key, value] : changes) {
    if (value) {
      plan[key] = *value;
    } else {
      plan.erase(key);
    }
  }
}

inline ControlRecord NewControl() {
  ControlRecord record;
  record.set_epoch(kMasterEpoch);
  return record;
}

}  // namespace millrace::simulation
