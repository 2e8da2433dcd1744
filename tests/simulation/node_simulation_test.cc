// Nodes under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/node_world.h"
#include "tests/simulation/seeded_test.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToNodes[] = {
    "answer from an older master",
    "barrier passed",
    "barrier passed that gives values",
    "barrier passed that names deaths",
    "call broken",
    "death",
    "death while a call waits",
    "join refused",
    "master begins beside an older one",
    "master fenced",
    "master killed before step 0",
    "master killed before step 1",
    "master killed before step 2",
    "master killed before step 3",
    "master killed before step 4",
    "node gives up waiting",
    "node leaves",
    "node stands still",
    "record repeated",
    "release told while the next gathers",
    "sign refused",
    "transaction aborted",
    "wait refused",
};

SeedOutcome RunNodes(uint64_t seed) { return RunNodeSeed(seed); }

TEST(NodeSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunNodes, kHappensToNodes);
}

TEST(NodeSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunNodes); }

class NodeSimulationNotices : public testing::TestWithParam<Planted<NodeError>> {};

TEST_P(NodeSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunNodeSeed(seed, GetParam().error); });
}

constexpr Planted<NodeError> kPlantedInNodes[] = {
    {NodeError::kMissesTicks, "TicksThatAreMissed", 100},
    {NodeError::kGivesARankTwice, "ARankThatIsGivenTwice", 100},
    {NodeError::kReleasesWithoutANode, "ABarrierReleasedWithoutALivingNode", 100},
    {NodeError::kCountsTheDead, "ADeadNodeSSignThatCounts", 100},
    {NodeError::kLosesBarriers, "ABarrierThatIsLostWithItsMaster", 100},
    {NodeError::kForgetsReleases, "ANumberThatTwoReleasesHave", 100},
    {NodeError::kLosesValues, "AValueThatIsLostWithItsMaster", 100},
    {NodeError::kCountsRepeats, "ACommandThatCountsTwice", 100},
    {NodeError::kAnswersWhatIsNotWritten, "AnAnswerThatIsNotWritten", 100},
};

INSTANTIATE_TEST_SUITE_P(Planted, NodeSimulationNotices, testing::ValuesIn(kPlantedInNodes),
                         NameOfPlanted<NodeError>);

}  // namespace
}  // namespace millrace::simulation
