// Groups whose processes run when all others have ended (ProcessGroup.at_end).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/master_fixture.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using P = ProcessState;

ProcessGroup AtEnd(uint32_t most_failures = 3) {
  ProcessGroup group = Group("end", 1, 0, 1);
  group.set_at_end(true);
  group.set_most_failures(most_failures);
  return group;
}

ProcessPlan WorkersAndEnd(uint32_t workers = 2, uint32_t slots = 0) {
  return PlanOf({Group("worker", workers, 1, 1), AtEnd()}, slots);
}

void EndAll(TestedTable& job) {
  job.End("worker-0", Exit(0));
  job.End("worker-1", Exit(0));
}

TEST(ProcessEndGroup, WaitsUntilAllOthersHaveEnded) {
  TestedTable job(WorkersAndEnd());
  EXPECT_THAT(job.In(P::STARTING), ElementsAre("worker-0", "worker-1"));
  job.Run("worker-1");
  job.End("worker-0", Exit(0));
  job.Ticks(100);
  EXPECT_EQ(job.PhaseOf("end-0"), P::WAITING);
  job.End("worker-1", Exit(0));
  EXPECT_EQ(job.PhaseOf("end-0"), P::STARTING);
  EXPECT_EQ(job.table.phase(), MasterState::ACTIVE) << "the job has not ended yet";
  job.End("end-0", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
  EXPECT_EQ(job.Of("end-0").restarts(), 0u);
}

TEST(ProcessEndGroup, DoesNotWaitForWhomTheJobCanDoWithout) {
  TestedTable job(WorkersAndEnd());
  job.End("worker-0", Exit(2));
  EXPECT_EQ(job.PhaseOf("end-0"), P::WAITING);
  job.End("worker-1", Exit(0));
  EXPECT_EQ(job.PhaseOf("end-0"), P::STARTING);
}

TEST(ProcessEndGroup, IsStartedAgainUntilItHasDoneItsWorkOnce) {
  TestedTable job(WorkersAndEnd());
  EndAll(job);
  job.Run("end-0");
  job.Ticks(1);
  job.End("end-0", Signal(9));
  EXPECT_EQ(job.PhaseOf("end-0"), P::STARTING) << "killed: at once";
  job.End("end-0", Exit(1));
  EXPECT_EQ(job.PhaseOf("end-0"), P::WAITING) << "failed: after a while";
  job.Ticks(1);
  EXPECT_EQ(job.PhaseOf("end-0"), P::STARTING);
  job.End("end-0", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
  EXPECT_FALSE(job.table.Apply(WorkersAndEnd()).ok()) << "nothing is started any more";
}

TEST(ProcessEndGroup, ThatFailsTooOftenMakesTheJobFail) {
  TestedTable job(WorkersAndEnd());
  EndAll(job);
  for (int i = 0; i < 3; ++i) {
    job.Ticks(ProcessTable::kMostBackOff);
    job.End("end-0", Exit(1));
  }
  EXPECT_EQ(job.PhaseOf("end-0"), P::FAILED);
  EXPECT_EQ(job.table.phase(), MasterState::FAILED);
  EXPECT_THAT(job.table.failure(), HasSubstr("end-0 has failed for good, 3 times in a row"));
  // Another start of MasterApp gives it another chance, and nobody else.
  job.Apply(WorkersAndEnd());
  EXPECT_THAT(job.In(P::STARTING), ElementsAre("end-0"));
  job.End("end-0", Exit(0));
  EXPECT_EQ(job.table.phase(), MasterState::ENDED);
}

TEST(ProcessEndGroup, DoesNotRunInAJobThatIsStopped) {
  TestedTable job(WorkersAndEnd());
  job.Stop();
  EndAll(job);
  EXPECT_EQ(job.table.phase(), MasterState::STOPPED);
  EXPECT_EQ(job.Of("end-0").incarnation(), 0u);
}

TEST(ProcessEndGroup, DoesNotRunInAJobThatHasFailed) {
  TestedTable job(WorkersAndEnd());
  job.End("worker-0", Exit(2));
  job.End("worker-1", Exit(2));
  EXPECT_EQ(job.table.phase(), MasterState::FAILED);
  EXPECT_EQ(job.Of("end-0").incarnation(), 0u);
}

TEST(ProcessEndGroup, IsStoppedWithTheJobAndRunsWhenItGoesOn) {
  TestedTable job(WorkersAndEnd());
  EndAll(job);
  job.Run("end-0");
  job.Stop();
  EXPECT_EQ(job.PhaseOf("end-0"), P::STOPPING);
  job.End("end-0", Signal(15));
  EXPECT_EQ(job.table.phase(), MasterState::STOPPED);
  job.Apply(WorkersAndEnd());
  EXPECT_THAT(job.In(P::STARTING), ElementsAre("end-0"));
}

TEST(ProcessEndGroup, WaitsAgainWhereAPlanBringsOthers) {
  TestedTable job(WorkersAndEnd(2));
  EndAll(job);
  job.Run("end-0");
  job.Apply(WorkersAndEnd(3));
  EXPECT_EQ(job.PhaseOf("end-0"), P::STOPPING);
  EXPECT_EQ(job.PhaseOf("worker-2"), P::STARTING);
  job.End("end-0", Signal(15));
  EXPECT_EQ(job.PhaseOf("end-0"), P::WAITING);
  job.End("worker-2", Exit(0));
  EXPECT_EQ(job.PhaseOf("end-0"), P::STARTING);
}

TEST(ProcessEndGroup, NeedsNoSlotBesideTheOthers) {
  const ProcessPlan plan = WorkersAndEnd(2, 1);
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
  TestedTable job(plan);
  EXPECT_THAT(job.In(P::STARTING), ElementsAre("worker-0"));
  job.End("worker-0", Exit(0));
  job.End("worker-1", Exit(0));
  EXPECT_THAT(job.In(P::STARTING), ElementsAre("end-0"));
}

TEST(ProcessEndGroup, HostsNothing) {
  ProcessPlan plan = WorkersAndEnd();
  plan.mutable_groups(1)->set_logical_workers(1);
  EXPECT_THAT(std::string(CheckPlan(plan).message()), HasSubstr("when all others have ended"));
  plan.mutable_groups(1)->clear_logical_workers();
  plan.mutable_groups(1)->set_shards(1);
  EXPECT_FALSE(CheckPlan(plan).ok());
}

TEST(ProcessEndGroup, OfAStateThatWasSavedIsCheckedToo) {
  TestedTable job(WorkersAndEnd());
  EndAll(job);
  MasterState state;
  job.table.Save(state);
  ProcessTable::Processes processes = job.table.processes();
  EXPECT_TRUE(ProcessTable().Load(state, processes).ok());
  processes.at({"worker", 0}).set_phase(P::RUNNING);
  EXPECT_THAT(std::string(ProcessTable().Load(state, processes).message()),
              HasSubstr("end-0 is to run before the others have ended"));
}

}  // namespace
}  // namespace millrace
