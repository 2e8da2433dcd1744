// Groups of servers under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and
// MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/group_world.h"
#include "tests/simulation/seeded_test.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToGroups[] = {
    "answer lost, and said again",
    "checkpoint aborted",
    "delta",
    "exchange lost, and said again",
    "exchange repeated",
    "group between two others",
    "killed within an exchange",
    "last delta",
    "primary away",
    "several exchanges",
    "trainer killed",
    "zombie exchanges",
};

SeedOutcome RunGroups(uint64_t seed) { return RunGroupSeed(seed); }

TEST(GroupSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunGroups, kHappensToGroups);
}

TEST(GroupSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunGroups); }

class GroupSimulationNotices : public testing::TestWithParam<Planted<GroupError>> {};

TEST_P(GroupSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunGroupSeed(seed, GetParam().error); });
}

constexpr Planted<GroupError> kPlantedInGroups[] = {
    {GroupError::kLosesADelta, "ADeltaThatIsLost", 100},
    {GroupError::kTakesADeltaTwice, "ADeltaThatIsTakenTwice", 100},
    {GroupError::kForgetsTheBase, "ABaseThatIsNotInTheCheckpoint", 100},
    {GroupError::kForgetsTheLast, "LastValuesThatAreNotInTheCheckpoint", 100},
    {GroupError::kAnswersWithout, "AnAnswerWithoutTheDelta", 100},
    {GroupError::kEndsBeforeTheLast, "APrimaryThatEndsBeforeTheLastDelta", 100},
    {GroupError::kCountsAPutAsAChange, "FirstValuesThatAreSentAsAChange", 100},
};

INSTANTIATE_TEST_SUITE_P(Planted, GroupSimulationNotices, testing::ValuesIn(kPlantedInGroups),
                         NameOfPlanted<GroupError>);

}  // namespace
}  // namespace millrace::simulation
