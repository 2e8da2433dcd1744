// Leases under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/lease_world.h"
#include "tests/simulation/seeded_test.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToLeases[] = {
    "count of an older server",
    "fewer workers",
    "lease",
    "leases missed",
    "master begins beside an older one",
    "master fenced",
    "master killed before step 0",
    "master killed before step 1",
    "master killed before step 2",
    "master killed before step 3",
    "more workers",
    "order said again",
    "record repeated",
    "rows before the first lease",
    "rows of a lease that is done are gone",
    "transaction aborted",
    "update counted",
    "update late",
    "update of a life that is over",
    "update of another clock",
    "update said again",
    "worker joins again",
    "worker killed",
    "worker left",
    "zombie of a worker",
};

SeedOutcome RunLeases(uint64_t seed) { return RunLeaseSeed(seed); }

TEST(LeaseSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunLeases, kHappensToLeases);
}

TEST(LeaseSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunLeases); }

class LeaseSimulationNotices : public testing::TestWithParam<Planted<LeaseError>> {};

TEST_P(LeaseSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunLeaseSeed(seed, GetParam().error); });
}

constexpr Planted<LeaseError> kPlantedInLeases[] = {
    {LeaseError::kCountsRepeats, "ACutThatCountsTwice", 100},
    {LeaseError::kCountsAhead, "ARowThatCountsTooEarly", 100},
    {LeaseError::kCountsForAnother, "RowsThatCountForAnotherWorker", 100},
    {LeaseError::kSkipsARecord, "ACutThatBeginsTooLate", 100},
    {LeaseError::kMissesTheEnd, "AnEndThatIsMissed", 100},
    {LeaseError::kTrimsWhatIsLeased, "RowsDeletedThatAreLeased", 100},
    {LeaseError::kLearnsAcrossLeases, "ABatchAcrossLeases", 100},
    {LeaseError::kAcceptsAnyClock, "AnUpdateThatCountsTwice", 100},
    {LeaseError::kFollowsOldOrders, "AnOrderOfAnOlderMaster", 300},
    {LeaseError::kAcceptsAnyLife, "AnUpdateOfALifeThatIsOver", 2000},
    {LeaseError::kStaysWithOldLeases, "AWorkerThatStaysWithOldLeases", 500},
    {LeaseError::kLeavesEndsUnread, "AnEndThatNobodyReads", 100},
};

INSTANTIATE_TEST_SUITE_P(Planted, LeaseSimulationNotices, testing::ValuesIn(kPlantedInLeases),
                         NameOfPlanted<LeaseError>);

}  // namespace
}  // namespace millrace::simulation
