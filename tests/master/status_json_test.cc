#include "master/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "master/job_processes.h"
#include "tests/master/sample_jobs.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

nlohmann::json Parsed(const JobProcesses& job) {
  return nlohmann::json::parse(StatusJson("flights", job));
}

TEST(StatusJsonTest, HasTheSameForPrograms) {
  ProcessState running = Ended(Running(), ProcessEnd::EXITED, 1);
  running.set_phase_since_tick(90);
  const auto json = Parsed(Job({running}));
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
  const auto hosting = Parsed(Job({running}));
  EXPECT_EQ(hosting["processes"][0]["workers"], nlohmann::json({1, 3}));
  EXPECT_TRUE(hosting["processes"][0]["shards"].empty());
  const auto server = Parsed(Job({ServerWith(1, {0, 2})}));
  EXPECT_EQ(server["processes"][0]["name"], "server-1");
  EXPECT_EQ(server["processes"][0]["shards"], nlohmann::json({0, 2}));
}

TEST(StatusJsonTest, HasNoFileOfALogWhereProcessesArePods) {
  JobProcesses job = Job({Running()});
  job.state.mutable_plan()->set_run_dir(kFolderInPods);
  const auto json = Parsed(job);
  EXPECT_TRUE(json["processes"][0]["log"].is_null()) << json;
}

TEST(StatusJsonTest, NeverFailsOnWhatATopicHolds) {
  JobProcesses job = Job({Process(ProcessState::WAITING, 0)});
  job.state.mutable_plan()->set_run_dir("/\xff");
  const auto json = Parsed(job);
  EXPECT_TRUE(json["processes"][0]["last_end"].is_null());
}

TEST(StatusJsonTest, HasTheSecondsWithoutASignOfTheMaster) {
  JobProcesses job = Job({Running()});
  job.silent_s = 75;
  EXPECT_EQ(Parsed(job)["seconds_since_sign"], 75);
}

TEST(StatusJsonTest, SaysInWordsThatTheModelIsWorseThanOneThatKnowsNothing) {
  JobProcesses job = Job({Running()});
  EXPECT_TRUE(Parsed(job).at("worse_than_prior").is_null());
  job.worse_than_prior = "after 2000 rows the model is worse";
  EXPECT_EQ(Parsed(job).at("worse_than_prior"), "after 2000 rows the model is worse");
}

TEST(StatusJsonTest, SaysInWordsThatAllTrainersHaveLeftServersAlone) {
  ProcessState ended = Ended(Process(ProcessState::ENDED, 3), ProcessEnd::EXITED, 0);
  ended.set_phase_since_tick(100);
  EXPECT_TRUE(Parsed(JobOfTrainers({ended}, 129)).at("servers_alone").is_null());
  const auto json = Parsed(JobOfTrainers({ended}, 130));
  EXPECT_THAT(json.at("servers_alone").get<std::string>(),
              AllOf(StartsWith("worker-0 ended with exit code 0, and 30 s later the servers still "
                               "run: they wait for trainers that have not left"),
                    EndsWith("MasterApp stop")));
}

TEST(StatusJsonTest, HasEachDataSet) {
  const auto json = Parsed(With(Set(12, 3, 1)));
  const auto& set = json.at("task_sets").at(0);
  EXPECT_EQ(set.at("done"), 8);
  EXPECT_EQ(set.at("dealt_out"), 3);
  EXPECT_EQ(set.at("epoch"), 2);
  EXPECT_EQ(set.at("last_failure"), "no such file");
}

TEST(StatusJsonTest, HasEachNode) {
  const auto json = Parsed(With(Node(MemberState::DEAD)));
  const auto& node = json.at("nodes").at(0);
  EXPECT_EQ(node.at("role"), "ps");
  EXPECT_EQ(node.at("rank"), 2);
  EXPECT_EQ(node.at("instance"), "8c3f");
  EXPECT_EQ(node.at("address"), "10.0.0.5:7000");
  EXPECT_EQ(node.at("state"), "dead");
  EXPECT_EQ(node.at("ticks_since_sign"), 10);
}

TEST(StatusJsonTest, SaysHowManyWorkersThereAreToBeAndThatTheyChange) {
  JobProcesses job = WithLeases(false);
  job.leases->is_resizing = true;
  const auto json = Parsed(job);
  EXPECT_EQ(json.at("leases").at("size"), 1);
  EXPECT_EQ(json.at("leases").at("most_workers"), 16);
  EXPECT_EQ(json.at("leases").at("resizing"), true);
}

TEST(StatusJsonTest, HasEachWorkerThatHasLeases) {
  const auto json = Parsed(WithLeases(true));
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
  EXPECT_TRUE(Parsed(Job({})).at("leases").is_null());
}

}  // namespace
}  // namespace millrace
