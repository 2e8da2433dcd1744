// What a simulated run of one seed has shown.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace millrace::simulation {

struct SeedOutcome {
  std::string violation;                     // empty: every invariant held
  std::map<std::string, uint64_t> coverage;  // how often what has happened
};

}  // namespace millrace::simulation
