// Tasks under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "tests/simulation/task_world.h"

namespace millrace::simulation {

struct PlantedInTasks {
  TaskError error;
  std::string_view name;
  uint64_t seeds;  // noticed within so many from 0 on
};

void PrintTo(const PlantedInTasks& planted, std::ostream* out) { *out << planted.name; }

namespace {

uint64_t NumberIn(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// What must have happened in a thousand seeds, or the simulator is blind for it.
constexpr std::string_view kHappensToTasks[] = {
    "answer to nobody",
    "call broken",
    "call of a trainer that died",
    "death with a task",
    "master begins beside an older one",
    "master fenced",
    "master killed before step 0",
    "master killed before step 1",
    "master killed before step 2",
    "master killed before step 3",
    "master killed before step 4",
    "record repeated",
    "result said again",
    "task dealt out again",
    "task done",
    "task failed",
    "task from an older master",
    "task given up",
    "transaction aborted",
};

TEST(TaskSimulation, EveryInvariantHoldsUnderEverySeed) {
  const uint64_t seeds = NumberIn("MILLRACE_SEEDS", 1000);
  const uint64_t first = NumberIn("MILLRACE_FIRST_SEED", 0);
  std::map<std::string, uint64_t> coverage;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const TaskOutcome outcome = RunTaskSeed(seed);
    for (const auto& [what, count] : outcome.coverage) coverage[what] += count;
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
  }
  if (seeds < 1000) return;
  for (const std::string_view what : kHappensToTasks) {
    EXPECT_TRUE(coverage.contains(std::string(what))) << "never happened: " << what;
  }
}

TEST(TaskSimulation, TheSameSeedGivesTheSameRun) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(RunTaskSeed(seed).coverage, RunTaskSeed(seed).coverage);
  }
}

class TaskSimulationNotices : public testing::TestWithParam<PlantedInTasks> {};

TEST_P(TaskSimulationNotices, PlantedErrors) {
  const PlantedInTasks& planted = GetParam();
  for (uint64_t seed = 0; seed < planted.seeds; ++seed) {
    const std::string violation = RunTaskSeed(seed, planted.error).violation;
    if (violation.empty()) continue;
    std::printf("%s: noticed in seed %llu: %s\n", std::string(planted.name).c_str(),
                static_cast<unsigned long long>(seed), violation.c_str());
    return;
  }
  FAIL() << planted.name << " was not noticed";
}

constexpr PlantedInTasks kPlantedInTasks[] = {
    {TaskError::kCountsAnother, "AResultThatCountsForAnotherTask", 100},
    {TaskError::kLeasesTwice, "ALeaseGivenTwice", 100},
    {TaskError::kAnswersBeforeTheCommit, "AnAnswerBeforeTheCommit", 100},
    {TaskError::kForgetsTheUntold, "AnAnswerThatIsLostWithItsMaster", 100},
    {TaskError::kGivesToAnybody, "ATaskThatAnotherWasPerhapsTold", 500},
    {TaskError::kMissesADeath, "ADeathThatIsMissed", 100},
    {TaskError::kMissesTicks, "TicksThatAreMissed", 100},
    {TaskError::kCountsRepeats, "ACommandThatCountsTwice", 100},
    {TaskError::kKeepsWhatNobodyGets, "ATaskForSomebodyWhoHasGone", 500},
};

std::string NameOfTaskError(const testing::TestParamInfo<PlantedInTasks>& planted) {
  return std::string(planted.param.name);
}

INSTANTIATE_TEST_SUITE_P(Planted, TaskSimulationNotices, testing::ValuesIn(kPlantedInTasks),
                         NameOfTaskError);

}  // namespace
}  // namespace millrace::simulation
