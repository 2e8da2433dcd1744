// What becomes of a job's processes, event by event.
#include "processors/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/processors/master_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kKill = 9;
constexpr int kTerminate = 15;
constexpr int kCrash = 11;

// One worker, which may fail twice, and another process that lets the job go on without it.
ProcessPlan OneWorker(const std::string& argument = "") {
  ProcessGroup worker = Group("worker", 1, 1);
  worker.set_most_failures(3);
  if (!argument.empty()) worker.add_command(argument);
  return PlanOf({Group("other", 1, 2), worker});
}

void ToRunning(TestedTable& job) { job.Run("worker-0"); }
void ToWaiting(TestedTable& job) { job.End("worker-0", Exit(1)); }
void ToStopping(TestedTable& job) {
  ToRunning(job);
  job.Apply(OneWorker("--other"));
}
void ToEnded(TestedTable& job) { job.End("worker-0", Exit(0)); }
void ToFailed(TestedTable& job) { job.End("worker-0", Exit(2)); }
void ToStopped(TestedTable& job) {
  job.Stop();
  job.End("worker-0", Signal(kTerminate));
  job.End("other-0", Signal(kTerminate));
}

struct Row {
  ProcessState::Phase from;
  ProcessEvent event;
  std::function<void(TestedTable&)> before;  // brings the worker there
  std::function<void(TestedTable&)> happens;
  // Then, when nothing more follows from it:
  ProcessState::Phase then;
  uint64_t begun;  // incarnations
  uint32_t failures;
  uint64_t waits = 0;  // ticks
};

std::vector<Row> Rows() {
  using P = ProcessState;
  using E = ProcessEvent;
  const auto nothing = [](TestedTable&) {};
  const auto end = [](const ProcessEnd& how) {
    return [how](TestedTable& job) { job.End("worker-0", how); };
  };
  const auto run = [](TestedTable& job) { job.Run("worker-0"); };
  const auto tick = [](TestedTable& job) { job.Ticks(1); };
  const auto stop = [](TestedTable& job) { job.Stop(); };
  const auto other_command = [](TestedTable& job) { job.Apply(OneWorker("--new")); };
  const auto run_a_tick = [](TestedTable& job) {
    ToRunning(job);
    job.Ticks(1);
  };
  const auto run_again = [](TestedTable& job) {
    ToWaiting(job);
    job.Ticks(1);
    ToRunning(job);
  };
  const auto steady = [](TestedTable& job) { job.Ticks(ProcessTable::kSteadyTicks); };
  return {
      {P::WAITING, E::kMayStart, ToWaiting, tick, P::STARTING, 2, 1},
      {P::WAITING, E::kJobStops, ToWaiting, stop, P::STOPPED, 1, 1},
      {P::WAITING, E::kAnotherChance, ToWaiting, other_command, P::STARTING, 2, 0},
      {P::STARTING, E::kRuns, nothing, run, P::RUNNING, 1, 0},
      {P::STARTING, E::kDone, nothing, end(Exit(0)), P::ENDED, 1, 0},
      {P::STARTING, E::kKilledSoon, nothing, end(Signal(kKill)), P::WAITING, 1, 0, 1},
      {P::STARTING, E::kFailed, nothing, end(Exit(1)), P::WAITING, 1, 1, 1},
      {P::STARTING, E::kHopeless, nothing, end(EndBy(ProcessEnd::NOT_STARTED)), P::FAILED, 1, 1},
      {P::STARTING, E::kMustStop, nothing, other_command, P::STOPPING, 1, 0},
      {P::RUNNING, E::kDone, ToRunning, end(Exit(0)), P::ENDED, 1, 0},
      {P::RUNNING, E::kKilled, run_a_tick, end(Signal(kKill)), P::STARTING, 2, 0},
      {P::RUNNING, E::kKilledSoon, ToRunning, end(Signal(kKill)), P::WAITING, 1, 0, 1},
      {P::RUNNING, E::kFailed, run_again, end(Signal(kCrash)), P::WAITING, 2, 2, 2},
      {P::RUNNING, E::kHopeless, ToRunning, end(Exit(2)), P::FAILED, 1, 1},
      {P::RUNNING, E::kMustStop, ToRunning, other_command, P::STOPPING, 1, 0},
      {P::RUNNING, E::kSteady, run_again, steady, P::RUNNING, 2, 0},
      {P::STOPPING, E::kGone, ToStopping, end(Exit(1)), P::STARTING, 2, 0},
      {P::ENDED, E::kAnotherChance, ToEnded, other_command, P::STARTING, 2, 0},
      {P::FAILED, E::kAnotherChance, ToFailed, other_command, P::STARTING, 2, 0},
      {P::STOPPED, E::kAnotherChance, ToStopped, other_command, P::STARTING, 2, 0},
  };
}

TEST(ProcessTable, DoesWhatEachRowOfItsTransitionsSays) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(ProcessState::Phase_Name(row.from) + ", event " +
                 std::to_string(static_cast<int>(row.event)));
    TestedTable job(OneWorker());
    row.before(job);
    ASSERT_EQ(job.PhaseOf("worker-0"), row.from);
    row.happens(job);
    const ProcessState& worker = job.Of("worker-0");
    EXPECT_EQ(worker.phase(), row.then);
    EXPECT_EQ(worker.failures(), row.failures);
    EXPECT_EQ(worker.restarts() + 1, row.begun);
    EXPECT_EQ(worker.not_before_tick(), row.waits == 0 ? 0 : job.table.ticks() + row.waits);
  }
}

TEST(ProcessTable, HasNoTransitionThatNoTestSaw) {
  std::set<std::pair<ProcessState::Phase, ProcessEvent>> seen;
  for (const Row& row : Rows()) seen.emplace(row.from, row.event);
  for (const ProcessTransition& transition : ProcessTransitions()) {
    EXPECT_TRUE(seen.contains({transition.from, transition.event}))
        << ProcessState::Phase_Name(transition.from) << ", event "
        << static_cast<int>(transition.event);
    EXPECT_EQ(FindTransition(transition.from, transition.event), &transition) << "it stands twice";
  }
  EXPECT_EQ(seen.size(), ProcessTransitions().size());
}

TEST(ProcessTable, TellsKillsFromOutsideFromFailures) {
  for (const ProcessEnd& end :
       {Signal(1), Signal(2), Signal(9), Signal(15), Exit(130), EndBy(ProcessEnd::UNKNOWN)}) {
    TestedTable job(OneWorker());
    job.Run("worker-0");
    job.Ticks(1);
    job.End("worker-0", end);
    EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING) << ToText(end);
    EXPECT_EQ(job.Of("worker-0").failures(), 0u) << ToText(end);
  }
  for (const ProcessEnd& end : {Signal(6), Signal(11), Exit(1), Exit(4), Exit(-1), Exit(255),
                                EndBy(ProcessEnd::OUT_OF_MEMORY)}) {
    TestedTable job(OneWorker());
    job.Run("worker-0");
    job.Ticks(1);
    job.End("worker-0", end);
    EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::WAITING) << ToText(end);
    EXPECT_EQ(job.Of("worker-0").failures(), 1u) << ToText(end);
  }
}

TEST(ProcessTable, WaitsTwiceAsLongAfterEachFailureUpToABound) {
  TestedTable job(PlanOf({Group("server", 1, 3)}));
  for (const uint64_t wait : {1u, 2u, 4u, 8u, 16u, 32u, 32u, 32u}) {
    job.End("server-0", Exit(1));
    job.Ticks(wait - 1);
    EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::WAITING) << wait;
    job.Ticks(1);
    EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::STARTING) << wait;
  }
  EXPECT_EQ(job.Of("server-0").restarts(), 8u);
}

TEST(ProcessTable, GivesAProcessUpAfterItsLastFailureInARow) {
  TestedTable job(OneWorker());
  for (const auto phase : {ProcessState::WAITING, ProcessState::WAITING, ProcessState::FAILED}) {
    job.Ticks(ProcessTable::kMostBackOff);
    job.End("worker-0", Exit(1));
    EXPECT_EQ(job.PhaseOf("worker-0"), phase);
  }
}

TEST(ProcessTable, ForgetsFailuresOnlyAfterASteadyRun) {
  for (const auto& [ticks, failures] :
       {std::pair(ProcessTable::kSteadyTicks - 1, 2u), std::pair(ProcessTable::kSteadyTicks, 1u)}) {
    TestedTable job(OneWorker());
    job.End("worker-0", Exit(1));
    job.Ticks(1);
    job.Run("worker-0");
    job.Ticks(ticks);
    job.End("worker-0", Exit(1));
    EXPECT_EQ(job.Of("worker-0").failures(), failures) << ticks;
  }
}

TEST(ProcessTable, GoesOnWithoutProcessesUntilItIsStopped) {
  ProcessTable table;
  ProcessPlan plan;
  plan.set_run_dir("/run");
  EXPECT_EQ(table.Apply(plan), absl::OkStatus());
  table.Tick();
  EXPECT_EQ(table.phase(), MasterState::ACTIVE);
  EXPECT_EQ(table.Stop(), absl::OkStatus());
  EXPECT_EQ(table.phase(), MasterState::STOPPED);
  MasterState state;
  table.Save(state);
  ProcessTable next;
  EXPECT_EQ(next.Load(state, {}), absl::OkStatus());
  EXPECT_EQ(next.Apply(plan), absl::OkStatus());
  EXPECT_EQ(next.phase(), MasterState::ACTIVE) << "it cannot be continued";
}

TEST(ProcessTable, GivesSlotsToTheHigherPriorityFirst) {
  TestedTable job(PlanOf({Group("worker", 3, 1), Group("server", 2, 3)}, 3));
  EXPECT_THAT(job.In(ProcessState::STARTING), ElementsAre("server-0", "server-1", "worker-0"));
  EXPECT_THAT(job.In(ProcessState::WAITING), ElementsAre("worker-1", "worker-2"));
  job.End("worker-0", Exit(0));
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::STARTING);
}

TEST(ProcessTable, TakesTheSlotOfTheLowestPriorityForAServerThatComesBack) {
  TestedTable job(
      PlanOf({Group("producer", 1, 2), Group("worker", 2, 1), Group("server", 1, 3)}, 3));
  for (const char* name : {"producer-0", "server-0", "worker-0"}) job.Run(name);
  EXPECT_THAT(job.In(ProcessState::WAITING), ElementsAre("worker-1"));
  job.End("server-0", Exit(1));  // while it waits, its slot is not left empty
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::STARTING);
  job.Run("worker-1");
  job.Ticks(1);
  EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::WAITING) << "a slot is empty only then";
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-1"));
  job.Ticks(5);
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-1")) << "one is enough";
  job.End("worker-1", Signal(kKill));
  EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::STARTING);
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::WAITING);
  EXPECT_EQ(job.Of("worker-1").failures(), 0u);
}

TEST(ProcessTable, LeavesTheSlotsOfEqualPriorityAlone) {
  TestedTable job(PlanOf({Group("worker", 2, 1)}, 1));
  job.Ticks(5);
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING);
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::WAITING);
}

TEST(ProcessTable, StopsWhatRunsBeyondFewerSlots) {
  const std::vector<ProcessGroup> groups = {Group("server", 1, 3), Group("worker", 3, 1)};
  TestedTable job(PlanOf(groups));
  job.Apply(PlanOf(groups, 2));
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-1", "worker-2"));
  job.End("worker-2", Exit(130));
  EXPECT_EQ(job.PhaseOf("worker-2"), ProcessState::WAITING);
  job.Apply(PlanOf(groups, 3));
  EXPECT_EQ(job.PhaseOf("worker-2"), ProcessState::WAITING) << "worker-1 has not ended yet";
  job.End("worker-1", Exit(130));
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::STARTING);
}

TEST(ProcessTable, StopsTheLowestPriorityFirstAndTheNextWhenItIsGone) {
  TestedTable job(PlanOf({Group("producer", 1, 2), Group("server", 1, 3), Group("worker", 2, 1)}));
  job.Run("server-0");
  job.Stop();
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-0", "worker-1"));
  job.End("worker-0", Exit(130));
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-1"));
  job.End("worker-1", Exit(1));
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("producer-0"));
  job.End("producer-0", Exit(0));
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("server-0"));
  EXPECT_EQ(job.table.phase(), MasterState::STOPPING);
  job.End("server-0", Exit(130));
  EXPECT_EQ(job.table.phase(), MasterState::STOPPED);
  EXPECT_EQ(job.In(ProcessState::STOPPED).size(), 4u);
}

TEST(ProcessTable, StartsNothingWhileTheJobIsStopped) {
  TestedTable job(PlanOf({Group("server", 1, 3), Group("worker", 1, 1)}));
  job.Run("server-0");
  job.Ticks(1);
  job.Stop();
  job.End("server-0", Signal(kKill));
  EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::STOPPED);
  job.End("worker-0", Exit(1));
  EXPECT_EQ(job.table.phase(), MasterState::STOPPED);
  job.Ticks(100);
  EXPECT_EQ(job.In(ProcessState::STOPPED).size(), 2u);
}

TEST(ProcessTable, RunsAgainWhatWasStoppedWithTheJobButNotWhatHadEnded) {
  const ProcessPlan plan = PlanOf({Group("producer", 1, 2), Group("worker", 1, 1)});
  TestedTable job(plan);
  job.End("producer-0", Exit(0));
  job.Stop();
  job.End("worker-0", Exit(0));  // it was told to: so it has not done its work
  ASSERT_EQ(job.table.phase(), MasterState::STOPPED);
  job.Apply(plan);
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE);
  EXPECT_EQ(job.PhaseOf("producer-0"), ProcessState::ENDED);
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING);
}

TEST(ProcessTable, EndsWithItsLastProcess) {
  TestedTable job(PlanOf({Group("server", 1, 3), Group("worker", 1, 1)}));
  job.End("server-0", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE);
  job.End("worker-0", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
}

TEST(ProcessTable, StartsNothingOfAJobThatHasEnded) {
  TestedTable job(PlanOf({Group("worker", 1, 1)}));
  job.End("worker-0", Exit(0));
  const Status applied = job.table.Apply(PlanOf({Group("worker", 2, 1)}));
  EXPECT_TRUE(absl::IsFailedPrecondition(applied));
  EXPECT_THAT(std::string(TextOf(applied)), HasSubstr("the job has ended"));
  job.Stop();
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
  EXPECT_EQ(job.table.processes().size(), 1u);
}

TEST(ProcessTable, FailsWhenAGroupHasFewerLeftThanTheJobNeeds) {
  TestedTable job(PlanOf({Group("server", 1, 3, 1), Group("worker", 3, 1, 2)}));
  job.End("worker-0", Exit(2));
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE) << "the job can do without one";
  job.End("worker-1", Exit(2));
  EXPECT_EQ(job.table.phase(), MasterState::STOPPING);
  EXPECT_THAT(job.In(ProcessState::STOPPING), ElementsAre("worker-2"));
  EXPECT_EQ(job.table.failure(),
            "worker-0 has failed for good: exit code 2. Of the 3 processes of the group worker, 1 "
            "are left, and the job needs 2");
  job.Stop();
  job.End("worker-2", Exit(130));
  job.End("server-0", Exit(130));
  EXPECT_EQ(job.table.phase(), MasterState::FAILED) << "which a stop does not change";
}

TEST(ProcessTable, NamesTheFailureThatWasOneTooMany) {
  ProcessGroup worker = Group("worker", 2, 1, 1);
  worker.set_most_failures(1);
  TestedTable job(PlanOf({worker}));
  job.End("worker-0", Exit(3));
  job.Ticks(1);
  job.End("worker-1", Signal(kCrash));
  EXPECT_EQ(job.table.phase(), MasterState::FAILED) << "nothing is left to be stopped";
  EXPECT_THAT(job.table.failure(), HasSubstr("worker-1 has failed for good: signal 11 (SIGSEGV)"));
}

TEST(ProcessTable, EndsWithoutAProcessThatTheJobCanDoWithout) {
  TestedTable job(PlanOf({Group("worker", 2, 1, 1)}));
  job.End("worker-0", Exit(2));
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE);
  job.End("worker-1", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
}

TEST(ProcessTable, GivesAFailedJobAnotherChanceByAPlan) {
  const ProcessPlan plan = PlanOf({Group("server", 1, 3, 1), Group("worker", 1, 1, 1)});
  TestedTable job(plan);
  job.End("worker-0", Exit(2));
  job.End("server-0", Exit(130));
  ASSERT_EQ(job.table.phase(), MasterState::FAILED);
  job.Apply(plan);
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE);
  EXPECT_EQ(job.table.failure(), "");
  EXPECT_EQ(job.In(ProcessState::STARTING).size(), 2u);
}

TEST(ProcessTable, IsNotChangedByThePlanThatAnActiveJobHas) {
  const ProcessPlan plan = PlanOf({Group("server", 1, 3), Group("worker", 2, 1)});
  TestedTable job(plan);
  job.End("worker-0", Exit(2));
  job.End("server-0", Exit(1));
  job.table.TakeChanged();
  job.Apply(plan);
  EXPECT_THAT(job.table.TakeChanged(), IsEmpty());
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::FAILED);
  EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::WAITING);
}

TEST(ProcessTable, StopsAndStartsOnlyWhatHasAnotherCommand) {
  ProcessGroup worker = Group("worker", 1, 1);
  TestedTable job(PlanOf({Group("server", 1, 3), worker}));
  worker.add_command("--threads=4");
  job.Apply(PlanOf({Group("server", 1, 3), worker}));
  EXPECT_EQ(job.PhaseOf("server-0"), ProcessState::STARTING);
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STOPPING);
  EXPECT_THAT(job.Of("worker-0").command(), ElementsAre("/bin/worker", "--rank=0"));
  job.End("worker-0", Exit(130));
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING);
  EXPECT_THAT(job.Of("worker-0").command(), ElementsAre("/bin/worker", "--rank=0", "--threads=4"));
}

TEST(ProcessTable, StopsAndForgetsWhatIsNotInThePlan) {
  TestedTable job(PlanOf({Group("server", 1, 3), Group("worker", 3, 1)}));
  job.End("worker-2", Exit(0));
  job.Apply(PlanOf({Group("server", 1, 3), Group("worker", 1, 1)}));
  EXPECT_FALSE(job.Has("worker-2"));
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::STOPPING);
  job.table.TakeChanged();
  job.End("worker-1", Exit(1));
  EXPECT_FALSE(job.Has("worker-1"));
  EXPECT_THAT(job.table.TakeChanged(), ElementsAre(ProcessTable::Key("worker", 1)));
}

TEST(ProcessTable, NumbersAProcessThatComesBackToThePlanAsNoneBefore) {
  const ProcessPlan both = PlanOf({Group("server", 1, 3), Group("worker", 1, 1)});
  TestedTable job(both);
  const uint64_t before = job.Of("worker-0").incarnation();
  job.Apply(PlanOf({Group("server", 1, 3)}));
  job.End("worker-0", Exit(130));
  job.Apply(both);
  EXPECT_GT(job.Of("worker-0").incarnation(), before);
  job.Report(Ends("worker-0", before, Exit(2)));
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING) << "the report is of the one before";
}

TEST(ProcessTable, GoesOnWithAProcessThatComesBackWhileItIsStopped) {
  const ProcessPlan both = PlanOf({Group("server", 1, 3), Group("worker", 1, 1)});
  TestedTable job(both);
  job.Apply(PlanOf({Group("server", 1, 3)}));
  job.Apply(both);
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STOPPING);
  job.End("worker-0", Exit(130));
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING);
}

TEST(ProcessTable, IsNotChangedByReportsThatAreOldOrRepeated) {
  TestedTable job(OneWorker());
  const uint64_t first = job.Of("worker-0").incarnation();
  job.Run("worker-0");
  job.Ticks(1);
  job.End("worker-0", Signal(kKill));
  const uint64_t second = job.Of("worker-0").incarnation();
  ASSERT_GT(second, first);
  job.Run("worker-0");
  job.table.TakeChanged();
  job.Report(Runs("worker-0", second));
  job.Report(Runs("worker-0", first));
  job.Report(Ends("worker-0", first, Exit(0)));
  job.Report(Ends("stranger-7", first, Exit(0)));
  EXPECT_THAT(job.table.TakeChanged(), IsEmpty());
  job.End("worker-0", Exit(0));
  job.table.TakeChanged();
  job.Report(Ends("worker-0", second, Exit(2)));
  EXPECT_THAT(job.table.TakeChanged(), IsEmpty());
}

TEST(ProcessTable, RefusesAReportOfWhatWasNeverToBeStarted) {
  TestedTable job(OneWorker());
  const uint64_t all = job.table.incarnations();
  for (const ProcessReport& report : {Runs("worker-0", all + 1), Runs("stranger-0", all + 1)}) {
    const Status status = job.table.Report(report);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(TextOf(status)), HasSubstr("never to be started"));
  }
  EXPECT_EQ(job.PhaseOf("worker-0"), ProcessState::STARTING);
}

TEST(ProcessTable, HasNothingToStopWithoutAPlan) {
  ProcessTable table;
  table.Tick();
  EXPECT_TRUE(absl::IsFailedPrecondition(table.Stop()));
  EXPECT_EQ(table.phase(), MasterState::IDLE);
}

TEST(ProcessTable, TakesNoPlanWhileTooManyAreStillBeingStopped) {
  TestedTable job(PlanOf({Group("a", kMostProcesses, 1)}));
  job.Apply(PlanOf({Group("b", kMostProcesses, 1)}));
  const Status status = job.table.Apply(PlanOf({Group("c", 1, 1)}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(TextOf(status)), HasSubstr("Give the plan again"));
  for (uint32_t i = 0; i < 2; ++i) job.End("a-" + std::to_string(i), Exit(130));
  job.Apply(PlanOf({Group("b", kMostProcesses - 1, 1)}));
}

}  // namespace
}  // namespace millrace
