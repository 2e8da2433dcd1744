// Tasks under faults; seeds as in simulation_test.cc, by MILLRACE_SEEDS and MILLRACE_FIRST_SEED.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "tests/simulation/seeded_test.h"
#include "tests/simulation/task_world.h"

namespace millrace::simulation {
namespace {

constexpr std::string_view kHappensToTasks[] = {
    "answer to nobody",
    "call broken",
    "call of a trainer that died",
    "death with a task",
    "evaluation",
    "master begins beside an older one",
    "master fenced",
    "master killed before step 0",
    "master killed before step 1",
    "master killed before step 2",
    "master killed before step 3",
    "master killed before step 4",
    "record repeated",
    "result said again",
    "task at the end",
    "task dealt out again",
    "task done",
    "task failed",
    "task from an older master",
    "task given up",
    "transaction aborted",
};

SeedOutcome RunTasks(uint64_t seed) { return RunTaskSeed(seed); }

TEST(TaskSimulation, EveryInvariantHoldsUnderEverySeed) {
  ExpectThatEverySeedHolds(RunTasks, kHappensToTasks);
}

TEST(TaskSimulation, TheSameSeedGivesTheSameRun) { ExpectTheSameRunOfTheSameSeed(RunTasks); }

class TaskSimulationNotices : public testing::TestWithParam<Planted<TaskError>> {};

TEST_P(TaskSimulationNotices, PlantedErrors) {
  ExpectThatItIsNoticed(GetParam(),
                        [](uint64_t seed) { return RunTaskSeed(seed, GetParam().error); });
}

constexpr Planted<TaskError> kPlantedInTasks[] = {
    {TaskError::kCountsAnother, "AResultThatCountsForAnotherTask", 100},
    {TaskError::kLeasesTwice, "ALeaseGivenTwice", 100},
    {TaskError::kAnswersBeforeTheCommit, "AnAnswerBeforeTheCommit", 100},
    {TaskError::kForgetsTheUntold, "AnAnswerThatIsLostWithItsMaster", 100},
    {TaskError::kGivesToAnybody, "ATaskThatAnotherWasPerhapsTold", 500},
    {TaskError::kMissesADeath, "ADeathThatIsMissed", 100},
    {TaskError::kMissesTicks, "TicksThatAreMissed", 100},
    {TaskError::kCountsRepeats, "ACommandThatCountsTwice", 100},
    {TaskError::kKeepsWhatNobodyGets, "ATaskForSomebodyWhoHasGone", 500},
    {TaskError::kDealsOutWhatIsLost, "ALostTaskThatIsDealtOutAgain", 100},
    {TaskError::kCountsEvaluations, "AnEvaluationThatCountsAsTraining", 100},
    {TaskError::kEvaluatesTooEarly, "AnEvaluationThatComesTooEarly", 100},
    {TaskError::kEndsTwice, "AnEndTaskThatIsGivenTwice", 100},
};

INSTANTIATE_TEST_SUITE_P(Planted, TaskSimulationNotices, testing::ValuesIn(kPlantedInTasks),
                         NameOfPlanted<TaskError>);

}  // namespace
}  // namespace millrace::simulation
