// The master under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and
// MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/master_world.h"
#include "tests/simulation/seeded_test.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToMasters[] = {
    "end of the job",
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
    "shard moved by a user",
    "start of what has ended, by an older master",
    "start of what was forgotten, by an older master",
    "start repeated, by an older master",
    "stop by a user",
    "stop of what was not started",
    "stop of what was not started, by an older master",
    "transaction aborted",
    "unusable record",
    "worker moved between living processes",
};

SeedOutcome RunMasters(uint64_t seed) { return RunMasterSeed(seed); }

TEST(MasterSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunMasters, kHappensToMasters);
}

TEST(MasterSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunMasters); }

class MasterSimulationNotices : public testing::TestWithParam<Planted<MasterError>> {};

TEST_P(MasterSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunMasterSeed(seed, GetParam().error); });
}

constexpr Planted<MasterError> kPlantedInMaster[] = {
    {MasterError::kCountsOldReports, "AReportOfAnEarlierIncarnationThatCounts", 100},
    {MasterError::kStartsBeforeTheCommit, "OrdersBeforeTheCommit", 100},
    {MasterError::kIgnoresSlots, "SlotsThatAreIgnored", 100},
    {MasterError::kForgetsBackOff, "ABackOffThatIsForgotten", 100},
    {MasterError::kKeepsStopToItself, "AStopThatDoesNotSurviveTheMaster", 100},
    {MasterError::kRemembersReports, "AReportThatIsMadeOnce", 100},
    {MasterError::kForgetsChanges, "ChangesThatAnAbortLoses", 100},
    {MasterError::kIsNotFenced, "AnOlderMasterThatIsNotFenced", 100},
    {MasterError::kTakesUnseenForEnded, "WhatIsNotSeenTakenForEnded", 500},
    {MasterError::kLauncherForgets, "ALauncherThatStartsWhatIsForgotten", 500},
    {MasterError::kStopsOnlyWhatRuns, "ALauncherThatStopsOnlyWhatRuns", 100},
    {MasterError::kStartsWhatIsThere, "ALauncherThatStartsWhatIsThere", 100},
    {MasterError::kForgetsALogicalWorker, "ALogicalWorkerThatNobodyHosts", 100},
    {MasterError::kKeepsMoveToItself, "AMoveThatDoesNotSurviveTheMaster", 300},
    {MasterError::kKeepsShardsForEver, "AServerAppThatKeepsAShardThatWasMoved", 300},
    {MasterError::kEndsBesideOthers, "AnEndThatDoesNotWaitForTheOthers", 100},
    {MasterError::kEndsTwice, "AnEndThatComesTwice", 300},
    {MasterError::kReadsThePlanOnce, "AWorkerAppThatDoesNotFollowThePlan", 100},
};

INSTANTIATE_TEST_SUITE_P(Planted, MasterSimulationNotices, testing::ValuesIn(kPlantedInMaster),
                         NameOfPlanted<MasterError>);

}  // namespace
}  // namespace millrace::simulation
