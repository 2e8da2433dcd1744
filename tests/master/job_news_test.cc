#include "master/job_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/master/sample_jobs.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NewsTest, NothingNewIsNotTold) {
  EXPECT_THAT(News(Job({Running()}), Job({Running()})), IsEmpty());
}

TEST(NewsTest, AProcessRunsAndRunsAgain) {
  const ProcessState starting = Process(ProcessState::STARTING, 3);
  EXPECT_THAT(News(Job({}), Job({starting})), IsEmpty());
  EXPECT_THAT(News(Job({starting}), Job({Running()})), ElementsAre("worker-0 runs"));
  ProcessState again = Running();
  again.set_restarts(2);
  EXPECT_THAT(News(Job({starting}), Job({again})), ElementsAre("worker-0 runs again"));
}

TEST(NewsTest, AnEndIsToldWithItsCauseAndWhatFollows) {
  ProcessState waiting = Ended(Process(ProcessState::WAITING, 3), ProcessEnd::EXITED, 1);
  waiting.set_not_before_tick(104);
  EXPECT_THAT(News(Job({Running()}), Job({waiting})),
              ElementsAre("worker-0 has ended: exit code 1; it is started again in 4 s"));
  const ProcessState next = Ended(Process(ProcessState::STARTING, 5), ProcessEnd::SIGNALED, 9);
  EXPECT_THAT(News(Job({Running()}), Job({next})),
              ElementsAre("worker-0 has ended: signal 9 (SIGKILL); it is started again"));
  const ProcessState failed = Ended(Process(ProcessState::FAILED, 3), ProcessEnd::EXITED, 2);
  EXPECT_THAT(
      News(Job({Running()}), Job({failed})),
      ElementsAre("worker-0 has ended: exit code 2; it is given up, and not started again"));
  const ProcessState ended = Ended(Process(ProcessState::ENDED, 3), ProcessEnd::EXITED, 0);
  EXPECT_THAT(News(Job({Running()}), Job({ended})), ElementsAre("worker-0 has ended: exit code 0"));
}

TEST(NewsTest, AProcessThatGaveUpItsSlotWaitsForOne) {
  const ProcessState stopping = Process(ProcessState::STOPPING, 3);
  EXPECT_THAT(News(Job({Running()}), Job({stopping})), ElementsAre("worker-0 is being stopped"));
  const ProcessState waiting = Ended(Process(ProcessState::WAITING, 3), ProcessEnd::EXITED, 130);
  EXPECT_THAT(News(Job({stopping}), Job({waiting})),
              ElementsAre("worker-0 was stopped: exit code 130; it waits for a slot"));
}

TEST(NewsTest, AProcessThatHasGoneFromThePlanIsNotForgottenSilently) {
  EXPECT_THAT(News(Job({Process(ProcessState::STOPPING, 3)}), Job({})),
              ElementsAre("worker-0 was stopped, as the plan wants it"));
}

TEST(NewsTest, AShardThatMovesIsToldOnce) {
  const JobProcesses before = Job({ServerWith(0, {0, 2}), ServerWith(1, {1})});
  const JobProcesses now = Job({ServerWith(0, {2}), ServerWith(1, {0, 1})});
  EXPECT_THAT(News(before, now), ElementsAre("shard 0 moves from server-0 to server-1"));
  EXPECT_THAT(News(now, now), IsEmpty());
  // Those of a job that begins are nobody's before.
  EXPECT_THAT(News(Job({ServerWith(0, {}), ServerWith(1, {})}), now), IsEmpty());
}

TEST(NewsTest, TheJobsEndIsTold) {
  EXPECT_THAT(News(Job({}), Job({}, MasterState::ENDED)),
              ElementsAre(HasSubstr("the job has ended")));
  JobProcesses failed = Job({}, MasterState::FAILED);
  failed.state.set_failure("no worker is left\x1b[2J");
  EXPECT_THAT(News(Job({}), failed), ElementsAre("the job has failed: no worker is left\\x1b[2J"));
}

TEST(NewsTest, ADataSetBeginsLosesATaskAndIsDone) {
  EXPECT_THAT(News(Job({}), With(Set(0, 0))),
              ElementsAre("data set numbers: 20 tasks of 10 records, in 2 epochs"));
  EXPECT_THAT(News(With(Set(0, 0)), With(Set(20, 1))), IsEmpty());
  EXPECT_THAT(
      News(With(Set(20, 1)), With(Set(20, 0, 1))),
      ElementsAre("data set numbers: a task is given up, it has failed 3 times: no such file",
                  "data set numbers is done; tasks given up: 1"));
  EXPECT_THAT(News(With(Set(20, 0, 1)), With(Set(20, 0, 1))), IsEmpty());
}

TEST(NewsTest, NodesJoinDieAreReplacedAndLeave) {
  const MemberState live = Node(MemberState::LIVE);
  const MemberState dead = Node(MemberState::DEAD);
  EXPECT_THAT(News(Job({}), With(live)), ElementsAre("node ps-2 has joined: 10.0.0.5:7000"));
  EXPECT_THAT(News(With(live), With(live)), IsEmpty());
  EXPECT_THAT(News(With(live), With(dead)),
              ElementsAre("node ps-2 is dead: it gave no sign of life for 30 s"));
  EXPECT_THAT(News(With(dead), With(Node(MemberState::LIVE, 4))),
              ElementsAre("node ps-2 is replaced: 10.0.0.5:7000"));
  EXPECT_THAT(News(With(live), With(Node(MemberState::LEFT))), ElementsAre("node ps-2 has left"));
}

TEST(NewsTest, LeasesBeginAndNoFurtherRowComes) {
  EXPECT_THAT(News(Job({}), WithLeases(false)), ElementsAre("rows are leased to 1 workers"));
  EXPECT_THAT(News(WithLeases(false), WithLeases(false)), IsEmpty());
  EXPECT_THAT(News(WithLeases(false), WithLeases(true)),
              ElementsAre("input-data has ended: 250 rows"));
  EXPECT_THAT(News(WithLeases(true), WithLeases(true)), IsEmpty());
}

TEST(NewsTest, TheJobHasEndedAndWhoWasGivenUpIsNamed) {
  const ProcessState ended = Ended(Process(ProcessState::ENDED, 3), ProcessEnd::EXITED, 0);
  EXPECT_THAT(News(Job({ended}), Job({ended}, MasterState::ENDED)),
              ElementsAre("the job has ended: all processes have done their work"));
  const ProcessState failed = Ended(Process(ProcessState::FAILED, 3), ProcessEnd::EXITED, 1);
  EXPECT_THAT(
      News(Job({failed}), Job({failed}, MasterState::ENDED)),
      ElementsAre(
          "the job has ended; given up: worker-0; the other processes have done their work"));
}

TEST(NewsTest, TheNumberOfWorkersIsToChangeAndHasChanged) {
  JobProcesses changing = WithLeases(false);
  changing.leases->size = 2;
  changing.leases->is_resizing = true;
  JobProcesses done = changing;
  done.leases->is_resizing = false;
  EXPECT_THAT(News(WithLeases(false), changing),
              ElementsAre("the job is to have 2 workers, instead of 1"));
  EXPECT_THAT(News(changing, done), ElementsAre("the job has 2 workers"));
}

TEST(NewWarningsTest, ServersThatAllTrainersHaveLeftAloneAreToldOnce) {
  ProcessState ended = Ended(Process(ProcessState::ENDED, 3), ProcessEnd::EXITED, 0);
  ended.set_phase_since_tick(100);
  const JobProcesses soon = JobOfTrainers({ended}, 129);
  const JobProcesses late = JobOfTrainers({ended}, 130);
  EXPECT_THAT(NewWarnings(soon, soon), IsEmpty());
  EXPECT_THAT(NewWarnings(soon, late),
              ElementsAre(HasSubstr("worker-0 ended with exit code 0, and 30 s later the servers "
                                    "still run: they wait for trainers that have not left")));
  EXPECT_THAT(NewWarnings(late, JobOfTrainers({ended}, 131)), IsEmpty());
  ProcessState other = Running();
  other.mutable_process()->set_rank(1);
  EXPECT_THAT(NewWarnings(soon, JobOfTrainers({ended, other}, 130)), IsEmpty());
  JobProcesses of_rows = late;  // WorkerApps end when the job does
  of_rows.state.mutable_plan()->mutable_groups(0)->set_logical_workers(2);
  EXPECT_THAT(NewWarnings(soon, of_rows), IsEmpty());
  // A producer that has sent all rows tells nothing of those that train on them.
  ProcessState producer = ended;
  producer.mutable_process()->set_group("producer");
  of_rows.processes = {ServerWith(0, {0}), producer, Running()};
  of_rows.state.mutable_plan()->add_groups()->set_name("producer");
  EXPECT_THAT(NewWarnings(soon, of_rows), IsEmpty());
}

}  // namespace
}  // namespace millrace
