// How the tests of a simulator go through its seeds, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

using SeedRun = std::function<SeedOutcome(uint64_t seed)>;

// An error that a simulator is to notice.
template <typename Error>
struct Planted {
  Error error;
  std::string_view name;
  uint64_t seeds;  // noticed within so many from 0 on
};

template <typename Error>
void PrintTo(const Planted<Error>& planted, std::ostream* out) {
  *out << planted.name;
}

template <typename Error>
std::string NameOfPlanted(const testing::TestParamInfo<Planted<Error>>& planted) {
  return std::string(planted.param.name);
}

inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// `must_happen`: in a thousand seeds, or the simulator is blind for it.
inline void ExpectThatEverySeedHolds(const SeedRun& run,
                                     std::span<const std::string_view> must_happen) {
  const uint64_t seeds = NumberFromEnvironment("MILLRACE_SEEDS", 1000);
  const uint64_t first = NumberFromEnvironment("MILLRACE_FIRST_SEED", 0);
  std::map<std::string, uint64_t> coverage;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const SeedOutcome outcome = run(seed);
    for (const auto& [what, count] : outcome.coverage) coverage[what] += count;
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
  }
  if (seeds < 1000) return;
  for (const std::string_view what : must_happen) {
    EXPECT_TRUE(coverage.contains(std::string(what))) << "never happened: " << what;
  }
}

inline void ExpectTheSameRunOfTheSameSeed(const SeedRun& run) {
  for (uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(run(seed).coverage, run(seed).coverage);
}

// `run` has the error.
template <typename Error>
void ExpectThatItIsNoticed(const Planted<Error>& planted, const SeedRun& run) {
  for (uint64_t seed = 0; seed < planted.seeds; ++seed) {
    const std::string violation = run(seed).violation;
    if (violation.empty()) continue;
    std::printf("%s: noticed in seed %llu: %s\n", std::string(planted.name).c_str(),
                static_cast<unsigned long long>(seed), violation.c_str());
    return;
  }
  FAIL() << planted.name << " was not noticed";
}

}  // namespace millrace::simulation
