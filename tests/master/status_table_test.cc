#include "master/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/master/sample_jobs.h"

namespace millrace {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusTableTest, AMasterThatGivesNoSignIsCalledSo) {
  JobProcesses job = Job({Running()});
  job.silent_s = 9;
  EXPECT_THAT(StatusTable("flights", job), Not(HasSubstr("sign")));
  job.silent_s = 75;
  EXPECT_THAT(StatusTable("flights", job),
              HasSubstr("job flights: active; no MasterApp has given a sign for 0:01:15\n"));
  EXPECT_THAT(StatusTable("flights", job),
              HasSubstr("Warning: this is what the last MasterApp knew"));
  job.state.set_phase(MasterState::ENDED);
  EXPECT_THAT(StatusTable("flights", job), Not(HasSubstr("sign")));
}

TEST(StatusTableTest, WarnsOfServersThatAllTrainersHaveLeftAlone) {
  ProcessState ended = Ended(Process(ProcessState::ENDED, 3), ProcessEnd::EXITED, 0);
  ended.set_phase_since_tick(100);
  EXPECT_THAT(StatusTable("flights", JobOfTrainers({ended}, 130)),
              HasSubstr("Warning: worker-0 ended with exit code 0"));
}

TEST(StatusTableTest, HasALineForEachProcess) {
  ProcessState running = Ended(Running(), ProcessEnd::SIGNALED, 9);
  running.set_phase_since_tick(35);
  running.set_restarts(2);
  EXPECT_EQ(StatusTable("flights", Job({running})),
            "job flights: active\n"
            "process   phase    hosts  incarnation  restarts  for      last end            log\n"
            "worker-0  running  -      3            2         0:01:05  signal 9 (SIGKILL)  "
            "/run/flights/logs/worker-0.log\n");
}

TEST(StatusTableTest, SaysWhatEachProcessHosts) {
  ProcessState worker = Running();
  for (const uint32_t number : {1, 3}) worker.add_workers(number);
  const std::string table =
      StatusTable("flights", Job({ServerWith(0, {0, 1, 2, 5, 7, 8}), worker}));
  EXPECT_THAT(table, HasSubstr("server-0  running  shards 0-2, 5, 7-8  "));
  EXPECT_THAT(table, HasSubstr("worker-0  running  workers 1, 3  "));
}

TEST(StatusTableTest, SaysWhyAJobHasFailedAndHowManyMayRun) {
  JobProcesses job = Job({}, MasterState::FAILED);
  job.state.set_failure("worker-0: exit code 1");
  job.state.mutable_plan()->set_slots(3);
  EXPECT_THAT(StatusTable("flights", job),
              HasSubstr("job flights: failed: worker-0: exit code 1; at most 3 processes at a "
                        "time\n"));
}

TEST(StatusTableTest, SaysInWordsThatTheModelIsWorseThanOneThatKnowsNothing) {
  JobProcesses job = Job({Running()});
  EXPECT_THAT(StatusTable("flights", job), Not(HasSubstr("Warning")));
  job.worse_than_prior = "after 2000 rows the model is worse";
  EXPECT_THAT(StatusTable("flights", job),
              EndsWith("\nWarning: after 2000 rows the model is worse.\n"));
}

TEST(StatusTableTest, HasALineForEachDataSet) {
  const JobProcesses job = With(Set(12, 3, 1));
  EXPECT_THAT(StatusTable("flights", job), HasSubstr("data set  tasks  done  dealt out  given up\n"
                                                     "numbers   20     8     3          1\n"));
}

TEST(StatusTableTest, HasALineForEachNode) {
  const JobProcesses job = With(Node(MemberState::DEAD));
  EXPECT_THAT(StatusTable("flights", job), HasSubstr("node  state  last sign  address\n"
                                                     "ps-2  dead   0:00:10    10.0.0.5:7000\n"));
}

TEST(StatusTableTest, SaysWhichWorkersAreThereAndThatTheyChange) {
  JobProcesses job = WithLeases(false);
  job.leases->is_resizing = true;
  job.leases->workers.push_back(job.leases->workers[0]);
  job.leases->workers[0].set_last(true);
  job.leases->workers[1].set_last(true);
  job.leases->workers[1].set_left(true);
  const std::string table = StatusTable("flights", job);
  EXPECT_THAT(table, HasSubstr("workers: 1, at most 16; they are being changed\n"));
  EXPECT_THAT(table, HasSubstr("1       leaving  150"));
  EXPECT_THAT(table, HasSubstr("1       left     150"));
}

TEST(StatusTableTest, HasALineForEachWorkerThatHasLeases) {
  EXPECT_THAT(StatusTable("flights", WithLeases(false)),
              HasSubstr("rows: 250 found, in ranges for leases; 2 ranges are not leased yet\n"
                        "workers: 1, at most 16\n"
                        "worker  state   rows leased  rows counted  open leases\n"
                        "1       active  150          90            1\n"));
}

}  // namespace
}  // namespace millrace
