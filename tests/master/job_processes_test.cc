#include "master/job_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "topics/control_codec.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

JobProcessesOptions Options() {
  JobProcessesOptions options;
  options.run_dir = "/run/flights";
  options.program_dir = "/opt/millrace";
  options.shards = 2;
  options.has_input = true;
  options.server_processes = 2;
  options.server_file = "/run/flights/config/server-1.textproto";
  options.worker_file = "/run/flights/config/worker-3.textproto";
  options.producer_file = "/run/flights/config/producer-1.textproto";
  return options;
}

ProcessPlan PlanOf(const JobProcessesOptions& options) {
  StatusOr<ProcessPlan> plan = PlanJobProcesses(options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(CheckPlan(*plan).ok()) << CheckPlan(*plan);
  return *plan;
}

std::string WhyNot(const JobProcessesOptions& options) {
  const Status refused = PlanJobProcesses(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  return std::string(refused.message());
}

TEST(JobProcessesTest, EachShardHasAServerWithAFolderOfItsOwn) {
  const ProcessPlan plan = PlanOf(Options());
  ASSERT_EQ(plan.groups(0).name(), "server");
  EXPECT_EQ(plan.groups(0).count(), 2u);
  EXPECT_EQ(plan.groups(0).least(), 2u);
  EXPECT_FALSE(plan.groups(0).has_most_failures());
  EXPECT_THAT(
      CommandOf(plan.groups(0), 1),
      ElementsAre("/opt/millrace/ServerApp", "--config", "/run/flights/config/server-1.textproto",
                  "--data-dir", "/run/flights/server-1", "--process", "server-1:{incarnation}"));
}

TEST(JobProcessesTest, AServerProgramOfOnesOwnGetsWhatServerAppWould) {
  JobProcessesOptions options = Options();
  options.server_program = "/home/me/own_server";
  EXPECT_THAT(
      CommandOf(PlanOf(options).groups(0), 1),
      ElementsAre("/home/me/own_server", "--config", "/run/flights/config/server-1.textproto",
                  "--data-dir", "/run/flights/server-1", "--process", "server-1:{incarnation}"));
}

TEST(JobProcessesTest, OneServerHasAllShards) {
  JobProcessesOptions options = Options();
  options.server_processes = 1;
  EXPECT_THAT(
      CommandOf(PlanOf(options).groups(0), 0),
      ElementsAre("/opt/millrace/ServerApp", "--config", "/run/flights/config/server-1.textproto",
                  "--data-dir", "/run/flights/server-0", "--process", "server-0:{incarnation}"));
}

TEST(JobProcessesTest, ServersComeBeforeTheProducerAndTheProducerBeforeWorkers) {
  const ProcessPlan plan = PlanOf(Options());
  ASSERT_EQ(plan.groups_size(), 3);
  EXPECT_EQ(plan.groups(1).name(), "producer");
  EXPECT_EQ(plan.groups(2).name(), "worker");
  EXPECT_GT(plan.groups(0).priority(), plan.groups(1).priority());
  EXPECT_GT(plan.groups(1).priority(), plan.groups(2).priority());
}

TEST(JobProcessesTest, MoreServersThanShardsAreWrongUsage) {
  JobProcessesOptions options = Options();
  options.shards = 4;
  options.server_processes = 3;
  EXPECT_EQ(PlanOf(options).groups(0).shards(), 4u);
  options.server_processes = 5;
  EXPECT_THAT(WhyNot(options),
              HasSubstr("--server-processes 5: give at most as many as --shards (4)"));
}

TEST(JobProcessesTest, AWorkerThatMayBeLaunchedAgainThreeTimesFailsForGoodWithItsFourthFailure) {
  JobProcessesOptions options = Options();
  options.most_relaunches = 3;
  const ProcessPlan plan = PlanOf(options);
  EXPECT_EQ(plan.groups(1).most_failures(), 4u);
  EXPECT_EQ(plan.groups(2).most_failures(), 4u);
  EXPECT_EQ(plan.groups(2).least(), 1u);
  options.most_relaunches = 0;
  EXPECT_EQ(PlanOf(options).groups(2).most_failures(), 1u);
}

TEST(JobProcessesTest, AJobWithoutAnInputHasNoProducer) {
  JobProcessesOptions options = Options();
  options.has_input = false;
  const ProcessPlan plan = PlanOf(options);
  ASSERT_EQ(plan.groups_size(), 2);
  EXPECT_EQ(plan.groups(1).name(), "worker");
}

TEST(JobProcessesTest, WorkerAppsHostTheLogicalWorkersThatThePlanGivesThem) {
  JobProcessesOptions options = Options();
  options.workers = 6;
  const ProcessPlan plan = PlanOf(options);
  EXPECT_EQ(plan.groups(0).logical_workers(), 0u);
  EXPECT_EQ(plan.groups(2).logical_workers(), 6u);
  EXPECT_THAT(
      CommandOf(plan.groups(2), 1),
      ElementsAre("/opt/millrace/WorkerApp", "--config", "/run/flights/config/worker-3.textproto",
                  "--process", "worker-1:{incarnation}", "--data-dir", "/run/flights/worker-1"));
  options.worker_command = {"sleep", "1"};
  EXPECT_EQ(PlanOf(options).groups(2).logical_workers(), 0u);
}

TEST(JobProcessesTest, AWorldSaysWhatWorkerAppsHostThatTrainByAllReduce) {
  JobProcessesOptions options = Options();
  options.server_processes = 0;
  options.all_reduce = true;
  const ProcessPlan plan = PlanOf(options);
  ASSERT_EQ(plan.groups_size(), 2);
  EXPECT_EQ(plan.groups(1).logical_workers(), 0u);
  EXPECT_THAT(CommandOf(plan.groups(1), 1), ElementsAre("/opt/millrace/WorkerApp", "--config",
                                                        "/run/flights/config/worker-3.textproto",
                                                        "--data-dir", "/run/flights/worker-1"));
}

TEST(JobProcessesTest, AnyCommandMayTakeThePlaceOfWorkerApp) {
  JobProcessesOptions options = Options();
  options.worker_command = {"/usr/bin/python3", "train.py", "--rank", "{rank}"};
  EXPECT_THAT(CommandOf(PlanOf(options).groups(2), 7),
              ElementsAre("/usr/bin/python3", "train.py", "--rank", "7"));
}

TEST(JobProcessesTest, OfAJobMayBeMoreOrFewerButNotOfAnotherKind) {
  const auto refused = [](const JobProcessesOptions& before, const JobProcessesOptions& next) {
    const Status status = CheckKeepsPrograms(PlanOf(before), PlanOf(next));
    EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  JobProcessesOptions fewer = Options();
  fewer.server_processes = 1;
  fewer.has_input = false;
  fewer.worker_processes = 9;
  EXPECT_EQ(refused(Options(), fewer), "");
  JobProcessesOptions by_hand = Options();
  by_hand.worker_processes = 0;
  EXPECT_EQ(refused(Options(), by_hand), "");
  EXPECT_EQ(refused(by_hand, Options()), "");
  JobProcessesOptions own = Options();
  own.worker_command = {"/usr/bin/true"};
  EXPECT_THAT(refused(Options(), own), HasSubstr("runs WorkerApps in this job"));
  EXPECT_THAT(refused(own, Options()), HasSubstr("runs a --worker-command in this job"));
  JobProcessesOptions serverless = own;
  serverless.server_processes = 0;
  EXPECT_THAT(refused(Options(), serverless), HasSubstr("the servers of this job"));
  EXPECT_EQ(refused(serverless, serverless), "");
  JobProcessesOptions all_reduce = Options();
  all_reduce.server_processes = 0;
  all_reduce.all_reduce = true;
  JobProcessesOptions nobody = all_reduce;
  nobody.worker_processes = 0;
  EXPECT_THAT(refused(all_reduce, nobody), HasSubstr("runs WorkerApps"));
  EXPECT_THAT(refused(all_reduce, serverless), HasSubstr("runs WorkerApps"));
}

TEST(JobProcessesTest, ACommandMayRunWhenTheOthersHaveEnded) {
  JobProcessesOptions options = Options();
  EXPECT_EQ(PlanOf(options).groups_size(), 3);
  options.end_command = {"/usr/bin/python3", "publish.py"};
  options.most_relaunches = 5;
  const ProcessPlan plan = PlanOf(options);
  ASSERT_EQ(plan.groups_size(), 4);
  const ProcessGroup& end = plan.groups(3);
  EXPECT_EQ(end.name(), "end");
  EXPECT_TRUE(end.at_end());
  EXPECT_EQ(end.count(), 1u);
  EXPECT_EQ(end.least(), 1u);
  EXPECT_EQ(end.most_failures(), 6u);
  EXPECT_THAT(CommandOf(end, 0), ElementsAre("/usr/bin/python3", "publish.py"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(plan.groups(i).at_end());
}

TEST(JobProcessesTest, ACommandAtTheEndOfWhatNeverEndsIsWrongUsage) {
  JobProcessesOptions options = Options();
  options.end_command = {"/bin/true"};
  options.stay = true;
  EXPECT_THAT(WhyNot(options), HasSubstr("--stay keeps them running"));
  options.stay = false;
  options.has_input = false;
  options.server_processes = options.worker_processes = 0;
  options.serves_tasks = true;
  EXPECT_THAT(WhyNot(options), HasSubstr("this job has none"));
}

TEST(JobProcessesTest, AJobOfNothingIsWrongUsage) {
  JobProcessesOptions options = Options();
  options.has_input = false;
  options.server_processes = options.worker_processes = 0;
  EXPECT_THAT(WhyNot(options), HasSubstr("no process is to run"));
  options.serves_tasks = true;
  EXPECT_EQ(PlanOf(options).groups_size(), 0) << "tasks alone";
}

TEST(JobProcessesTest, WorkersDoNotWriteOneEvaluationLogTogether) {
  JobProcessesOptions options = Options();
  options.worker_evaluation_log = "/tmp/worker.csv";
  EXPECT_THAT(WhyNot(options), HasSubstr("put {rank} into its name"));
  options.worker_evaluation_log = "/tmp/worker-{rank}.csv";
  EXPECT_EQ(CommandOf(PlanOf(options).groups(2), 1).back(), "/tmp/worker-1.csv");
}

TEST(JobProcessesTest, ThePlanTellsTheRunFolder) {
  EXPECT_EQ(PlanOf(Options()).run_dir(), "/run/flights");
  JobProcessesOptions options = Options();
  options.has_input = false;
  options.server_processes = 0;
  options.worker_command = {"sleep", "1"};
  EXPECT_EQ(PlanOf(options).run_dir(), "/run/flights") << "though no command names it";
}

TEST(JobProcessesTest, AServerIsGivenUpOnlyIfAskedFor) {
  JobProcessesOptions options = Options();
  options.most_server_relaunches = 0;
  const ProcessPlan plan = PlanOf(options);
  EXPECT_EQ(plan.groups(0).most_failures(), 1u);
  EXPECT_EQ(plan.groups(2).most_failures(), 4u);
}

TEST(JobProcessesTest, ServersAndWorkersStayButTheProducerDoesNot) {
  JobProcessesOptions options = Options();
  options.stay = true;
  const ProcessPlan plan = PlanOf(options);
  EXPECT_THAT(CommandOf(plan.groups(0), 0), Contains("--stay"));
  EXPECT_THAT(CommandOf(plan.groups(1), 0), Not(Contains("--stay")));
  EXPECT_THAT(CommandOf(plan.groups(2), 0), Contains("--stay"));
  options.worker_command = {"sleep", "1"};
  EXPECT_THAT(CommandOf(PlanOf(options).groups(2), 0), ElementsAre("sleep", "1"));
}

// ---- the files of the programs ----

TEST(JobProcessesTest, WhatAServerOrWorkerByHandIsToldIsNotInTheFiles) {
  JobConfig config;
  config.mutable_server()->set_stay(true);
  config.mutable_server()->set_checkpoint_now(true);
  config.mutable_worker()->set_stay(true);
  const Server server = JobFileOf(config, JobProgram::kServer, "/").server();
  EXPECT_FALSE(server.stay() || server.checkpoint_now());
  EXPECT_FALSE(JobFileOf(config, JobProgram::kWorker, "/").worker().stay());
}

TEST(JobProcessesTest, TheTopologyIsInTheFileOfTheServersWhichListenByIt) {
  JobConfig config;
  config.mutable_topology()->add_server()->set_port(7101);
  EXPECT_TRUE(JobFileOf(config, JobProgram::kServer, "/").has_topology());
  EXPECT_FALSE(JobFileOf(config, JobProgram::kWorker, "/").has_topology());
  EXPECT_FALSE(JobFileOf(config, JobProgram::kProducer, "/").has_topology());
}

JobConfig Config() {
  JobConfig config;
  config.set_name("flights");
  config.set_shards(2);
  config.mutable_features()->set_label("late");
  config.mutable_training()->set_batch_rows(7);
  config.mutable_producer()->set_input("data/flights.csv");
  config.mutable_server()->set_weights_file("weights.npy");
  config.mutable_server()->set_test_file("/data/test.csv");
  config.mutable_server()->set_data_dir("theirs");
  config.mutable_worker()->set_session_timeout_s(2);
  config.mutable_worker()->set_data_dir("theirs");
  KafkaSetting& setting = *config.add_kafka();
  setting.set_key("sasl.password");
  setting.set_value("secret");
  return config;
}

bool IsTheSame(const JobConfig& a, const JobConfig& b, JobProgram program) {
  return JobFileOf(a, program, "/home").SerializeAsString() ==
         JobFileOf(b, program, "/home").SerializeAsString();
}

TEST(JobFileTest, AProgramIsNotStartedAgainBecauseOfSettingsOfOthers) {
  JobConfig other = Config();
  other.mutable_worker()->set_session_timeout_s(9);
  for (const JobProgram program : kJobPrograms) {
    EXPECT_EQ(IsTheSame(Config(), other, program), program != JobProgram::kWorker)
        << GroupOf(program);
  }
  other = Config();
  other.mutable_training()->set_batch_rows(8);
  EXPECT_TRUE(IsTheSame(Config(), other, JobProgram::kWorker));
  EXPECT_FALSE(IsTheSame(Config(), other, JobProgram::kServer));
}

TEST(JobFileTest, AWorkerThatTrainsByAllReduceHasTheSettingsOfAServerToo) {
  JobConfig config = Config();
  config.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  config.mutable_worker()->set_master_address("127.0.0.1:50001");
  const JobConfig worker = JobFileOf(config, JobProgram::kWorker, "/home/me");
  EXPECT_EQ(worker.server().weights_file(), "/home/me/weights.npy");
  EXPECT_EQ(worker.training().distribution_strategy(), Training::ALL_REDUCE);
  EXPECT_EQ(worker.worker().master_address(), "127.0.0.1:50001");
  EXPECT_FALSE(worker.has_producer());
  JobConfig other = config;
  other.mutable_training()->set_batch_rows(8);
  EXPECT_FALSE(IsTheSame(config, other, JobProgram::kWorker));
}

TEST(JobFileTest, PathsDoNotDependOnWhereTheNextMasterIsStarted) {
  const JobConfig producer = JobFileOf(Config(), JobProgram::kProducer, "/home/me");
  EXPECT_EQ(producer.producer().input(), "/home/me/data/flights.csv");
  EXPECT_EQ(producer.producer().reject_file(), "/home/me/flights.csv.rejects.csv");
  const JobConfig server = JobFileOf(Config(), JobProgram::kServer, "/home/me");
  EXPECT_EQ(server.server().weights_file(), "/home/me/weights.npy");
  EXPECT_EQ(server.server().test_file(), "/data/test.csv");
}

TEST(JobFileTest, APathThatIsNotGivenStaysSo) {
  JobConfig config;
  config.mutable_server()->set_replicas(1);
  config.mutable_producer()->set_rate(7);
  const JobConfig server = JobFileOf(config, JobProgram::kServer, "/home/me");
  EXPECT_FALSE(server.server().has_weights_file());
  EXPECT_FALSE(server.server().has_test_file());
  const JobConfig producer = JobFileOf(config, JobProgram::kProducer, "/home/me");
  EXPECT_FALSE(producer.producer().has_input());
  EXPECT_FALSE(producer.producer().has_reject_file());
}

TEST(JobFileTest, FoldersOfDataStandInTheCommandOfEachProcess) {
  EXPECT_FALSE(JobFileOf(Config(), JobProgram::kServer, "/").server().has_data_dir());
  EXPECT_FALSE(JobFileOf(Config(), JobProgram::kWorker, "/").worker().has_data_dir());
}

TEST(JobFileTest, EveryProgramGetsTheJobAndItsKafka) {
  for (const JobProgram program : kJobPrograms) {
    const JobConfig file = JobFileOf(Config(), program, "/");
    EXPECT_EQ(file.name(), "flights");
    ASSERT_EQ(file.kafka_size(), 1);
    EXPECT_EQ(file.kafka(0).value(), "secret");
  }
}

// ---- commands ----

TEST(CommandWordsTest, AreTakenApartAsAShellWould) {
  EXPECT_THAT(*CommandWords("python3  train.py --name 'a b' \"c'd\" e\\ f ''"),
              ElementsAre("python3", "train.py", "--name", "a b", "c'd", "e f", ""));
}

TEST(CommandWordsTest, WithAnOpenQuoteOrWithoutAWordAreRefused) {
  EXPECT_THAT(std::string(CommandWords("echo 'a").status().message()), HasSubstr("not closed"));
  EXPECT_TRUE(absl::IsInvalidArgument(CommandWords(" \t").status()));
}

}  // namespace
}  // namespace millrace
