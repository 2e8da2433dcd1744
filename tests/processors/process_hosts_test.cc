// The table of processes gives logical workers to those that run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "processors/process_table.h"
#include "processors/worker_hosts.h"
#include "tests/processors/master_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

ProcessPlan Job(uint32_t processes, uint32_t workers) {
  ProcessGroup group = Group("worker", processes, 1);
  group.set_logical_workers(workers);
  return PlanOf({Group("server", 1, 3), group});
}

std::vector<uint32_t> WorkersOf(const TestedTable& job, const char* name) {
  const auto& workers = job.Of(name).workers();
  return {workers.begin(), workers.end()};
}

// All of them run.
TestedTable Begun(const ProcessPlan& plan) {
  TestedTable job(plan);
  for (const auto& name : job.In(ProcessState::STARTING)) job.Run(name);
  return job;
}

TEST(ProcessHosts, AreTheProcessesThatRun) {
  TestedTable job(Job(2, 4));
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
  job.Run("server-0");
  job.Run("worker-1");
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(0, 1, 2, 3));
  job.Run("worker-0");
  EXPECT_THAT(WorkersOf(job, "worker-0"), ElementsAre(0, 2));
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(1, 3));
  EXPECT_THAT(WorkersOf(job, "server-0"), IsEmpty());
}

TEST(ProcessHosts, HaveAtOnceWhatADeadOneHad) {
  TestedTable job = Begun(Job(2, 4));
  job.Ticks(kReadyTicks);
  job.table.TakeChanged();
  job.End("worker-0", Signal(9));
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.table.TakeChanged(),
              ElementsAre(ProcessTable::Key("worker", 0), ProcessTable::Key("worker", 1)));
}

TEST(ProcessHosts, HaveNoWorkersThatHaveLeftAndShareTheOthersEvenly) {
  TestedTable job = Begun(Job(3, 4));
  job.Ticks(kReadyTicks);
  job.table.HaveWorkers(8, {});
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(1, 2, 7));
  job.table.HaveWorkers(8, {0, 3, 4, 5, 6});
  for (const char* const name : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_THAT(WorkersOf(job, name), SizeIs(1)) << name;
  }
  job.table.HaveWorkers(8, {0, 3, 4, 5});
  size_t hosted = 0;
  for (const char* const name : {"worker-0", "worker-1", "worker-2"}) {
    hosted += WorkersOf(job, name).size();
  }
  EXPECT_EQ(hosted, 4u) << "one has come again";
}

TEST(ProcessHosts, GetTheirShareWhenTheyHaveRunForAWhile) {
  TestedTable job = Begun(Job(2, 4));
  job.Ticks(kReadyTicks);
  job.End("worker-0", Signal(9));
  job.Run("worker-0");
  job.Ticks(kReadyTicks - 1);
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
  job.Ticks(1);
  EXPECT_THAT(WorkersOf(job, "worker-0"), ElementsAre(0, 2));
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(1, 3));
}

TEST(ProcessHosts, LoseTheirWorkersWhenTheyAreToStop) {
  TestedTable job = Begun(Job(2, 4));
  job.Apply(Job(1, 4));
  EXPECT_EQ(job.PhaseOf("worker-1"), ProcessState::STOPPING);
  EXPECT_THAT(WorkersOf(job, "worker-1"), IsEmpty());
  EXPECT_THAT(WorkersOf(job, "worker-0"), ElementsAre(0, 1, 2, 3));
  job.End("worker-1", Exit(130));
  job.Stop();
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
}

TEST(ProcessHosts, HaveNoWorkersThatThePlanDoesNotHave) {
  TestedTable job = Begun(Job(2, 4));
  job.Apply(Job(2, 3));
  EXPECT_THAT(WorkersOf(job, "worker-0"), ElementsAre(0, 2));
  EXPECT_THAT(WorkersOf(job, "worker-1"), ElementsAre(1));
  job.Apply(Job(2, 0));
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
  EXPECT_THAT(WorkersOf(job, "worker-1"), IsEmpty());
}

TEST(ProcessHosts, AreNoneOfAGroupWithoutLogicalWorkers) {
  const TestedTable job = Begun(PlanOf({Group("worker", 2, 1)}));
  EXPECT_THAT(WorkersOf(job, "worker-0"), IsEmpty());
}

}  // namespace
}  // namespace millrace
