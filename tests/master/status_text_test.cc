#include "master/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "master/job_processes.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ProcessState Process(ProcessState::Phase phase, uint64_t incarnation) {
  ProcessState process;
  process.mutable_process()->set_group("worker");
  process.set_phase(phase);
  process.set_incarnation(incarnation);
  return process;
}

ProcessState Ended(ProcessState process, ProcessEnd::Cause cause, int code) {
  process.mutable_last_end()->set_cause(cause);
  process.mutable_last_end()->set_code(code);
  return process;
}

JobProcesses Job(std::vector<ProcessState> processes,
                 MasterState::Phase phase = MasterState::ACTIVE) {
  JobProcesses job;
  job.state.set_phase(phase);
  job.state.set_ticks(100);
  ProcessGroup& group = *job.state.mutable_plan()->add_groups();
  group.add_command("/opt/WorkerApp");
  group.set_name("worker");
  job.state.mutable_plan()->set_run_dir("/run/flights");
  job.processes = std::move(processes);
  return job;
}

ProcessState Running() { return Process(ProcessState::RUNNING, 3); }

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

ProcessState Server(uint32_t rank, std::initializer_list<uint32_t> shards) {
  ProcessState server = Running();
  server.mutable_process()->set_group("server");
  server.mutable_process()->set_rank(rank);
  for (const uint32_t shard : shards) server.add_shards(shard);
  return server;
}

TEST(NewsTest, AShardThatMovesIsToldOnce) {
  const JobProcesses before = Job({Server(0, {0, 2}), Server(1, {1})});
  const JobProcesses now = Job({Server(0, {2}), Server(1, {0, 1})});
  EXPECT_THAT(News(before, now), ElementsAre("shard 0 moves from server-0 to server-1"));
  EXPECT_THAT(News(now, now), IsEmpty());
  // Those of a job that begins are nobody's before.
  EXPECT_THAT(News(Job({Server(0, {}), Server(1, {})}), now), IsEmpty());
}

// Trainers of one's own, which began with servers.
JobProcesses JobOfTrainers(std::vector<ProcessState> trainers, uint64_t ticks) {
  JobProcesses job = Job({Server(0, {0})});
  job.state.set_ticks(ticks);
  ProcessGroup& servers = *job.state.mutable_plan()->add_groups();
  servers.set_name("server");
  servers.set_shards(1);
  for (ProcessState& trainer : trainers) job.processes.push_back(std::move(trainer));
  return job;
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
  EXPECT_THAT(StatusTable("flights", late), HasSubstr("Warning: worker-0 ended with exit code 0"));
  ProcessState other = Running();
  other.mutable_process()->set_rank(1);
  EXPECT_THAT(NewWarnings(soon, JobOfTrainers({ended, other}, 130)), IsEmpty());
  JobProcesses of_rows = late;  // WorkerApps end when the job does
  of_rows.state.mutable_plan()->mutable_groups(0)->set_logical_workers(2);
  EXPECT_THAT(NewWarnings(soon, of_rows), IsEmpty());
}

TEST(StatusTableTest, AMasterThatGivesNoSignIsCalledSo) {
  JobProcesses job = Job({Running()});
  job.silent_s = 9;
  EXPECT_THAT(StatusTable("flights", job), Not(HasSubstr("sign")));
  job.silent_s = 75;
  EXPECT_THAT(StatusTable("flights", job),
              HasSubstr("job flights: active; no MasterApp has given a sign for 0:01:15\n"));
  EXPECT_THAT(StatusTable("flights", job),
              HasSubstr("Warning: this is what the last MasterApp knew"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson("flights", job))["seconds_since_sign"], 75);
  job.state.set_phase(MasterState::ENDED);
  EXPECT_THAT(StatusTable("flights", job), Not(HasSubstr("sign")));
}

TEST(NewsTest, TheJobsEndIsTold) {
  EXPECT_THAT(News(Job({}), Job({}, MasterState::ENDED)),
              ElementsAre(HasSubstr("the job has ended")));
  JobProcesses failed = Job({}, MasterState::FAILED);
  failed.state.set_failure("no worker is left\x1b[2J");
  EXPECT_THAT(News(Job({}), failed), ElementsAre("the job has failed: no worker is left\\x1b[2J"));
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
  const std::string table = StatusTable("flights", Job({Server(0, {0, 1, 2, 5, 7, 8}), worker}));
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
  EXPECT_TRUE(nlohmann::json::parse(StatusJson("flights", job)).at("worse_than_prior").is_null());
  job.worse_than_prior = "after 2000 rows the model is worse";
  EXPECT_THAT(StatusTable("flights", job),
              EndsWith("\nWarning: after 2000 rows the model is worse.\n"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson("flights", job)).at("worse_than_prior"),
            "after 2000 rows the model is worse");
}

TEST(StatusJsonTest, HasTheSameForPrograms) {
  ProcessState running = Ended(Running(), ProcessEnd::EXITED, 1);
  running.set_phase_since_tick(90);
  const auto json = nlohmann::json::parse(StatusJson("flights", Job({running})));
  EXPECT_EQ(json["job"], "flights");
  EXPECT_EQ(json["phase"], "active");
  EXPECT_TRUE(json["failure"].is_null());
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["name"], "worker-0");
  EXPECT_EQ(process["phase"], "running");
  EXPECT_EQ(process["incarnation"], 3);
  EXPECT_EQ(process["seconds"], 10);
  EXPECT_EQ(process["last_end"]["cause"], "exited");
  EXPECT_EQ(process["last_end"]["code"], 1);
  EXPECT_EQ(process["log"], "/run/flights/logs/worker-0.log");
  EXPECT_TRUE(process["workers"].empty());
  running.add_workers(1);
  running.add_workers(3);
  const auto hosting = nlohmann::json::parse(StatusJson("flights", Job({running})));
  EXPECT_EQ(hosting["processes"][0]["workers"], nlohmann::json({1, 3}));
  EXPECT_TRUE(hosting["processes"][0]["shards"].empty());
  const auto server = nlohmann::json::parse(StatusJson("flights", Job({Server(1, {0, 2})})));
  EXPECT_EQ(server["processes"][0]["name"], "server-1");
  EXPECT_EQ(server["processes"][0]["shards"], nlohmann::json({0, 2}));
}

TEST(StatusJsonTest, HasNoFileOfALogWhereProcessesArePods) {
  JobProcesses job = Job({Running()});
  job.state.mutable_plan()->set_run_dir(kFolderInPods);
  const auto json = nlohmann::json::parse(StatusJson("flights", job));
  EXPECT_TRUE(json["processes"][0]["log"].is_null()) << json;
}

TEST(StatusJsonTest, NeverFailsOnWhatATopicHolds) {
  JobProcesses job = Job({Process(ProcessState::WAITING, 0)});
  job.state.mutable_plan()->set_run_dir("/\xff");
  const auto json = nlohmann::json::parse(StatusJson("flights", job));
  EXPECT_TRUE(json["processes"][0]["last_end"].is_null());
}

JobTaskSet Set(int64_t dealt, size_t open, uint64_t given_up = 0) {
  JobTaskSet set;
  TaskSetSpec& spec = *set.state.mutable_spec();
  spec.set_name("numbers");
  spec.set_records(100);
  spec.set_records_per_task(10);
  spec.set_epochs(2);
  spec.set_most_failures(3);
  set.state.set_dealt(dealt);
  set.state.set_given_up(given_up);
  if (given_up > 0) set.state.set_last_failure("no such file");
  set.open = open;
  return set;
}

JobProcesses With(const JobTaskSet& set) {
  JobProcesses job = Job({});
  job.task_sets.push_back(set);
  return job;
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

TEST(StatusTableTest, HasALineForEachDataSet) {
  const JobProcesses job = With(Set(12, 3, 1));
  EXPECT_THAT(StatusTable("flights", job), HasSubstr("data set  tasks  done  dealt out  given up\n"
                                                     "numbers   20     8     3          1\n"));
  const auto json = nlohmann::json::parse(StatusJson("flights", job));
  const auto& set = json.at("task_sets").at(0);
  EXPECT_EQ(set.at("done"), 8);
  EXPECT_EQ(set.at("dealt_out"), 3);
  EXPECT_EQ(set.at("epoch"), 2);
  EXPECT_EQ(set.at("last_failure"), "no such file");
}

MemberState Node(MemberState::Phase phase, uint64_t incarnation = 1) {
  MemberState node;
  node.set_role("ps");
  node.set_rank(2);
  node.set_instance("8c3f");
  node.set_address("10.0.0.5:7000");
  node.set_incarnation(incarnation);
  node.set_phase(phase);
  node.set_last_sign_tick(90);
  node.set_timeout_ticks(30);
  return node;
}

JobProcesses With(const MemberState& node) {
  JobProcesses job = Job({});
  job.nodes.push_back(node);
  return job;
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

TEST(StatusTableTest, HasALineForEachNode) {
  const JobProcesses job = With(Node(MemberState::DEAD));
  EXPECT_THAT(StatusTable("flights", job), HasSubstr("node  state  last sign  address\n"
                                                     "ps-2  dead   0:00:10    10.0.0.5:7000\n"));
  const auto json = nlohmann::json::parse(StatusJson("flights", job));
  const auto& node = json.at("nodes").at(0);
  EXPECT_EQ(node.at("role"), "ps");
  EXPECT_EQ(node.at("rank"), 2);
  EXPECT_EQ(node.at("instance"), "8c3f");
  EXPECT_EQ(node.at("address"), "10.0.0.5:7000");
  EXPECT_EQ(node.at("state"), "dead");
  EXPECT_EQ(node.at("ticks_since_sign"), 10);
}

JobProcesses WithLeases(bool ended) {
  JobProcesses job = Job({});
  WorkerLeases worker;
  worker.set_worker(1);
  worker.set_next_number(3);
  worker.set_next_row(150);
  worker.set_counted_rows(90);
  worker.add_open();
  job.leases = JobLeases{.cut_rows = 250,
                         .free_ranges = 2,
                         .ended = ended,
                         .size = 1,
                         .most_workers = 16,
                         .workers = {worker}};
  return job;
}

TEST(NewsTest, LeasesBeginAndNoFurtherRowComes) {
  EXPECT_THAT(News(Job({}), WithLeases(false)), ElementsAre("rows are leased to 1 workers"));
  EXPECT_THAT(News(WithLeases(false), WithLeases(false)), IsEmpty());
  EXPECT_THAT(News(WithLeases(false), WithLeases(true)),
              ElementsAre("input-data has ended: 250 rows"));
  EXPECT_THAT(News(WithLeases(true), WithLeases(true)), IsEmpty());
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
  const auto json = nlohmann::json::parse(StatusJson("flights", job));
  EXPECT_EQ(json.at("leases").at("size"), 1);
  EXPECT_EQ(json.at("leases").at("most_workers"), 16);
  EXPECT_EQ(json.at("leases").at("resizing"), true);
}

TEST(StatusTableTest, HasALineForEachWorkerThatHasLeases) {
  EXPECT_THAT(StatusTable("flights", WithLeases(false)),
              HasSubstr("rows: 250 found, in ranges for leases; 2 ranges are not leased yet\n"
                        "workers: 1, at most 16\n"
                        "worker  state   rows leased  rows counted  open leases\n"
                        "1       active  150          90            1\n"));
  const auto json = nlohmann::json::parse(StatusJson("flights", WithLeases(true)));
  const auto& leases = json.at("leases");
  EXPECT_EQ(leases.at("rows"), 250);
  EXPECT_EQ(leases.at("free_ranges"), 2);
  EXPECT_EQ(leases.at("ended"), true);
  const auto& worker = leases.at("workers").at(0);
  EXPECT_EQ(worker.at("worker"), 1);
  EXPECT_EQ(worker.at("state"), "active");
  EXPECT_EQ(worker.at("leases"), 3);
  EXPECT_EQ(worker.at("rows_leased"), 150);
  EXPECT_EQ(worker.at("rows_counted"), 90);
  EXPECT_EQ(worker.at("open"), 1);
  EXPECT_TRUE(nlohmann::json::parse(StatusJson("flights", Job({}))).at("leases").is_null());
}

}  // namespace
}  // namespace millrace
