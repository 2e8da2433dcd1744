// The master under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and
// MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "tests/simulation/master_world.h"

namespace millrace::simulation {

struct PlantedInMaster {
  MasterError error;
  std::string_view name;
  uint64_t seeds;  // noticed within so many from 0 on
};

void PrintTo(const PlantedInMaster& planted, std::ostream* out) { *out << planted.name; }

namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// What must have happened in a thousand seeds, or the simulator is blind for it.
constexpr std::string_view kHappensToMasters[] = {
    "exit status lost",
    "incarnation forgotten",
    "job in ACTIVE",
    "job in ENDED",
    "job in FAILED",
    "job in STOPPED",
    "job in STOPPING",
    "master begins beside an older one",
    "master fenced",
    "master killed before step 0",
    "master killed before step 1",
    "master killed before step 2",
    "master killed before step 3",
    "master killed before step 4",
    "master killed before step 5",
    "master killed before step 6",
    "process ends by itself",
    "process fails for good",
    "process killed",
    "process killed by the kernel",
    "process started",
    "process started, by an older master",
    "process told to stop",
    "process told to stop, by an older master",
    "process without a slot",
    "program that cannot be executed",
    "record repeated",
    "rest in ACTIVE",
    "rest in ENDED",
    "rest in FAILED",
    "rest in STOPPED",
    "start of what has ended, by an older master",
    "start of what was forgotten, by an older master",
    "start repeated, by an older master",
    "stop by a user",
    "stop of what was not started",
    "stop of what was not started, by an older master",
    "transaction aborted",
    "unusable record",
};

TEST(MasterSimulation, EveryInvariantHoldsUnderEverySeed) {
  const uint64_t seeds = FromEnvironment("MILLRACE_SEEDS", 1000);
  const uint64_t first = FromEnvironment("MILLRACE_FIRST_SEED", 0);
  std::map<std::string, uint64_t> coverage;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const MasterOutcome outcome = RunMasterSeed(seed);
    for (const auto& [what, count] : outcome.coverage) coverage[what] += count;
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
  }
  if (seeds < 1000) return;
  for (const std::string_view what : kHappensToMasters) {
    EXPECT_TRUE(coverage.contains(std::string(what))) << "never happened: " << what;
  }
}

TEST(MasterSimulation, TheSameSeedGivesTheSameRun) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(RunMasterSeed(seed).coverage, RunMasterSeed(seed).coverage);
  }
}

class MasterSimulationNotices : public testing::TestWithParam<PlantedInMaster> {};

TEST_P(MasterSimulationNotices, PlantedErrors) {
  const PlantedInMaster& planted = GetParam();
  for (uint64_t seed = 0; seed < planted.seeds; ++seed) {
    const std::string violation = RunMasterSeed(seed, planted.error).violation;
    if (violation.empty()) continue;
    std::printf("%s: noticed in seed %llu: %s\n", std::string(planted.name).c_str(),
                static_cast<unsigned long long>(seed), violation.c_str());
    return;
  }
  FAIL() << planted.name << " was not noticed";
}

constexpr PlantedInMaster kPlantedInMaster[] = {
    {MasterError::kCountsOldReports, "AReportOfAnEarlierIncarnationThatCounts", 100},
    {MasterError::kStartsBeforeTheCommit, "OrdersBeforeTheCommit", 100},
    {MasterError::kIgnoresSlots, "SlotsThatAreIgnored", 100},
    {MasterError::kForgetsBackOff, "ABackOffThatIsForgotten", 100},
    {MasterError::kKeepsStopToItself, "AStopThatDoesNotSurviveTheMaster", 100},
    {MasterError::kRemembersReports, "AReportThatIsMadeOnce", 100},
    {MasterError::kForgetsChanges, "ChangesThatAnAbortLoses", 100},
    {MasterError::kIsNotFenced, "AnOlderMasterThatIsNotFenced", 100},
    {MasterError::kTakesUnseenForEnded, "WhatIsNotSeenTakenForEnded", 100},
    {MasterError::kLauncherForgets, "ALauncherThatStartsWhatIsForgotten", 500},
    {MasterError::kStopsOnlyWhatRuns, "ALauncherThatStopsOnlyWhatRuns", 100},
    {MasterError::kStartsWhatIsThere, "ALauncherThatStartsWhatIsThere", 100},
};

std::string NameOfPlanted(const testing::TestParamInfo<PlantedInMaster>& planted) {
  return std::string(planted.param.name);
}

INSTANTIATE_TEST_SUITE_P(Planted, MasterSimulationNotices, testing::ValuesIn(kPlantedInMaster),
                         NameOfPlanted);

}  // namespace
}  // namespace millrace::simulation
