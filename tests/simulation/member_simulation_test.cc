// Members under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/member_world.h"
#include "tests/simulation/seeded_test.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToMembers[] = {
    "a commit is lost",
    "a world fails before its members hear of a checkpoint",
    "a zombie commits an old position",
    "all are stopped",
    "all die",
    "all die, and parameters are lost",
    "checkpoint",
    "dies between rounds",
    "dies in a round",
    "joins",
    "member 0 dies in the end of the job",
    "member 0 dies and tells nobody of its checkpoint",
    "state for a newcomer",
    "state from a checkpoint",
    "state of a round that failed",
    "the coordinator answers late",
    "worker starts at a commit",
    "world of 1",
    "world of 2",
    "world of 3",
};

SeedOutcome RunMembers(uint64_t seed) { return RunMemberSeed(seed); }

TEST(MemberSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunMembers, kHappensToMembers);
}

TEST(MemberSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunMembers); }

class MemberSimulationNotices : public testing::TestWithParam<Planted<MemberError>> {};

TEST_P(MemberSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunMemberSeed(seed, GetParam().error); });
}

constexpr Planted<MemberError> kPlantedInMembers[] = {
    {MemberError::kCommitsTooEarly, "PositionsThatAreCommittedTooEarly", 200},
    {MemberError::kKeepsAnOldState, "AnOldStateThatIsKept", 50},
    {MemberError::kIgnoresCheckpoints, "ACheckpointThatIsNotRead", 200},
    {MemberError::kAddsInAnotherOrder, "ASumInAnotherOrder", 50},
    {MemberError::kForgetsDeadLetters, "DeadLettersThatAreForgotten", 500},
};

INSTANTIATE_TEST_SUITE_P(Planted, MemberSimulationNotices, testing::ValuesIn(kPlantedInMembers),
                         NameOfPlanted<MemberError>);

}  // namespace
}  // namespace millrace::simulation
