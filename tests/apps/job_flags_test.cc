#include "apps/job_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] = R"(
    name: "flights"
    workers: 2
    kafka { key: "security.protocol" value: "SSL" }
    features { label: "late" classes: ["no", "yes"] numeric: ["temp"] }
    training {
      batch_rows: 7
      consistency { model: BOUNDED max_delay: 3 }
      optimizer { kind: ADAM learning_rate: 0.5 }
    }
)";

class JobFlagsTest : public testing::Test {
 protected:
  JobFlagsTest() {
    std::string pattern = testing::TempDir() + "millrace_flags_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ / "job.textproto";
  }
  ~JobFlagsTest() override { std::filesystem::remove_all(folder_); }

  // As a program with all groups of flags but one of the two --data-dir.
  StatusOr<JobConfig> Load(std::vector<std::string> words, const std::string& file = "") {
    CLI::App app;
    JobFlags flags(app);
    flags.AddFeatures();
    flags.AddTraining();
    flags.AddServer();
    if (!file.empty()) {
      std::ofstream(file_) << file;
      words.insert(words.begin(), {"--config", file_.string()});
    }
    std::reverse(words.begin(), words.end());
    app.parse(words);
    return flags.Load();
  }

  void ExpectError(const std::vector<std::string>& words, const std::string& text) {
    const StatusOr<JobConfig> config = Load(words);
    ASSERT_FALSE(config.ok());
    EXPECT_TRUE(absl::IsInvalidArgument(config.status()));
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(text));
  }

  std::filesystem::path folder_;
  std::filesystem::path file_;
};

TEST_F(JobFlagsTest, WithoutFlagsADefaultConfigIsValid) {
  const StatusOr<JobConfig> config = Load({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name(), "millrace");
  EXPECT_EQ(config->workers(), 4u);
}

TEST_F(JobFlagsTest, AFlagOverridesItsFieldOfTheFileAndNoOther) {
  const StatusOr<JobConfig> config =
      Load({"--batch-rows", "9", "--learning-rate", "0.25", "--classes", "a,b"}, kFile);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name(), "flights");
  EXPECT_EQ(config->workers(), 2u);
  EXPECT_EQ(config->training().batch_rows(), 9u);
  EXPECT_EQ(config->training().optimizer().kind(), Training::Optimizer::ADAM);
  EXPECT_EQ(config->training().optimizer().learning_rate(), 0.25);
  EXPECT_EQ(config->training().consistency().max_delay(), 3u);
  EXPECT_THAT(config->features().classes(), testing::ElementsAre("a", "b"));
  EXPECT_THAT(config->features().numeric(), testing::ElementsAre("temp"));
}

TEST_F(JobFlagsTest, AConsistencyOnTheCommandLineReplacesThatOfTheFile) {
  const StatusOr<JobConfig> config = Load({"--consistency", "sequential"}, kFile);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().consistency().model(), Training::Consistency::SEQUENTIAL);
  EXPECT_FALSE(config->training().consistency().has_max_delay());
}

TEST_F(JobFlagsTest, MaxVectorClockDelayIsAnotherNameOfConsistency) {
  const auto model = [&](const std::string& value) {
    return Load({"--max_vector_clock_delay=" + value})->training().consistency();
  };
  EXPECT_EQ(model("0").model(), Training::Consistency::SEQUENTIAL);
  EXPECT_EQ(model("-1").model(), Training::Consistency::EVENTUAL);
  EXPECT_EQ(model("4").model(), Training::Consistency::BOUNDED);
  EXPECT_EQ(model("4").max_delay(), 4u);
}

TEST_F(JobFlagsTest, OfAFlagGivenTwiceTheLastCounts) {
  EXPECT_EQ(Load({"--l2", "1", "--l2", "2"})->training().l2(), 2);
}

TEST_F(JobFlagsTest, KafkaSettingsAddUpAndMayHoldEqualsSignsAndCommas) {
  const StatusOr<JobConfig> config =
      Load({"--kafka", "sasl.password=a=b,c", "--kafka", "client.rack=r"}, kFile);
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->kafka_size(), 3);
  EXPECT_EQ(config->kafka(1).key(), "sasl.password");
  EXPECT_EQ(config->kafka(1).value(), "a=b,c");
  EXPECT_EQ(config->kafka(2).value(), "r");
}

TEST_F(JobFlagsTest, AnErrorInTheFileNamesItsLineAndColumn) {
  const auto error = [&](const std::string& text) {
    return std::string(Load({}, text).status().message());
  };
  EXPECT_THAT(error("name: \"x\"\n  wrokers: 3\n"), HasSubstr(file_.string() + ":2:"));
  EXPECT_THAT(error("name: \"x\"\n  wrokers: 3\n"), HasSubstr("wrokers"));
  EXPECT_THAT(error("training {\n  schedule: SOMETIMES\n}\n"), HasSubstr("\"SOMETIMES\""));
  EXPECT_THAT(error("workers: many"), HasSubstr(":1:"));
  EXPECT_THAT(error("training { "), HasSubstr(":1:"));
}

TEST_F(JobFlagsTest, AMissingFileIsAnError) {
  const Status status = Load({"--config", "/no/such/file"}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/no/such/file cannot be read: No such file or directory"));
  EXPECT_THAT(std::string(Load({"--config", "/tmp"}).status().message()), HasSubstr("is a folder"));
}

TEST_F(JobFlagsTest, AJobsNameIsAPrefixOfTopicsAndTheNameOfAFolder) {
  for (const char* good : {"a", "flights-2013.v2", "_x", "7"}) {
    EXPECT_TRUE(Load({"--job", good}).ok()) << good;
  }
  ExpectError({"--job", ""}, "use letters, digits");
  for (const char* bad : {"..", ".", ".hidden", "-rf", "a/b", "with space", "a\nb", "\xC3\xA4"}) {
    ExpectError({std::string("--job=") + bad}, "use letters, digits");
  }
  ExpectError({"--job", std::string(201, 'a')}, "200 at most");
}

TEST_F(JobFlagsTest, ABrokersPortIsOne) {
  for (const char* good : {"localhost:9092", "a:1,b:65535", "a, b:9092", "kafka", "[::1]:9092",
                           "[::1]", "SASL_SSL://kafka.example.com:9093"}) {
    EXPECT_TRUE(Load({"--brokers", good}).ok()) << good;
  }
  for (const char* bad : {"localhost:99999", "localhost:0", "localhost:", "a:1,,b:2", "a:1,",
                          ":9092", "a:http", "SSL://", "::1:9092"}) {
    ExpectError({"--brokers", bad}, "is not HOST:PORT");
  }
}

TEST_F(JobFlagsTest, AListOfNumbersIsNotEmpty) {
  ExpectError({"--server-ids", ""}, "--server-ids: '' has an empty element");
  ExpectError({"--hidden", "64,", "--model", "deepfm"}, "--hidden: '64,' has an empty element");
}

TEST_F(JobFlagsTest, HelpTellsTheDefaultOfTheDescriptorAndTheChoicesOfAnEnum) {
  CLI::App app;
  JobFlags flags(app);
  flags.AddTraining();
  const std::string help = app.help();
  EXPECT_THAT(help, HasSubstr("--l2 FLOAT"));
  EXPECT_THAT(help, HasSubstr("Logical workers = partitions of input-data [4]"));
  EXPECT_THAT(help, HasSubstr("--optimizer sgd|momentum|adagrad|adam|ftrl"));
  EXPECT_THAT(help, HasSubstr("networks [adagrad]"));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(JobFlagsTest, WhatMakesNoSenseIsRefusedWithTheFieldAndTheRemedy) {
  ExpectError({"--brokers", ""}, "brokers (--brokers) is empty");
  ExpectError({"--workers", "0"}, "workers (--workers): give 1 to");
  ExpectError({"--replication-factor", "1001"},
              "replication_factor (--replication-factor): give 0 to 1000");
  ExpectError({"--batch-rows", "0"}, "batch_rows (--batch-rows): give 1");
  ExpectError({"--buffer-min", "9", "--buffer-max", "8"},
              "min_rows (--buffer-min) <= max_rows (--buffer-max)");
  ExpectError({"--buffer-coefficient", "nan"}, "coefficient");
  ExpectError(
      {"--learning-rate", "0"},
      "training.optimizer.learning_rate (--learning-rate): 0 is not above 0 and at most 1e+18");
  ExpectError({"--l2=-1"}, "training.l2 (--l2): -1 is not a number of 0 or more");
  ExpectError({"--local-iterations", "0"}, "local_iterations (--local-iterations)");
  ExpectError({"--class-weight=a=-1"}, "class_weight (--class-weight): 'a=-1' is not NAME=W");
  ExpectError({"--class-weight=2,1"}, "'2' is not NAME=W");
  ExpectError({"--class-weight=a=1,balanced"}, "or balanced alone");
  ExpectError({"--evaluation-log", "log"}, "--test");
  ExpectError({"--weights-at-checkpoints"}, "--weights-file");
  ExpectError({"--new-stream"}, "--from-snapshot");
  ExpectError({"--schedule", "sometimes"},
              "--schedule: 'sometimes' is not one of one-pass, buffer");
  ExpectError({"--consistency", "bounded:0"}, "--consistency");
  ExpectError({"--kafka", "no-equals-sign"}, "KEY=VALUE");
  ExpectError({"--delimiter", "::"}, "delimiter (--delimiter): \"::\" separates no fields");
  ExpectError({"--encoding", "latin2"}, "--encoding: 'latin2' is not one of utf8, latin1");
  EXPECT_THAT(Load({}, "producer { follow: true epochs: 2 }").status().message(),
              HasSubstr("follow (--follow): a file that is followed has no end"));
  EXPECT_THAT(Load({}, "producer { follow: true input: '-' }").status().message(),
              HasSubstr("standard input is read until its writer ends"));
  for (const char* turn : {"0", "65537"}) {
    const std::string text = "producer { rows_per_turn: " + std::string(turn) + " }";
    EXPECT_THAT(Load({}, text).status().message(),
                HasSubstr("rows_per_turn (--rows-per-turn): give 1 to 65536"));
  }
}

// Each of these once ended a program in the middle of a job, after it had published them.
TEST_F(JobFlagsTest, NumbersThatWouldBreakTheTrainingAreRefusedBeforeAnythingIsPublished) {
  ExpectError({"--learning-rate", "inf"}, "learning_rate");
  ExpectError({"--decay=-1"}, "decay (--decay): -1 is not a number of 0 or more");
  ExpectError({"--buffer-max", "4000000000"}, "buffer.max_rows (--buffer-max): 16777216 at most");
  ExpectError({"--class-weight", "a=inf"}, "class_weight");
  ExpectError({"--class-weight", "a=nan"}, "class_weight");
  ExpectError({"--checkpoint-interval", "nan"}, "checkpoint_interval_s");
  ExpectError({"--broker-timeout=-1"}, "broker_timeout_s");
  const auto error = [&](const std::string& optimizer) {
    const std::string text = "training { optimizer { " + optimizer + " } }";
    return std::string(Load({}, text).status().message());
  };
  EXPECT_THAT(error("epsilon: 0"), HasSubstr("epsilon: 0 is not between 1e-30 and 1e+18"));
  EXPECT_THAT(error("epsilon: 1e-60"), HasSubstr("epsilon: 1e-60 is not between"));
  EXPECT_THAT(error("beta2: 1"), HasSubstr("beta2: 1 is not at least 0 and below 1"));
}

TEST_F(JobFlagsTest, WhatOnlyFtrlKnowsIsRefusedWithoutIt) {
  const StatusOr<JobConfig> config =
      Load({"--optimizer", "ftrl", "--l1", "0.5", "--ftrl-beta", "2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().optimizer().kind(), Training::Optimizer::FTRL);
  EXPECT_EQ(config->training().optimizer().l1(), 0.5);
  EXPECT_EQ(config->training().optimizer().ftrl_beta(), 2);
  ExpectError({"--l1", "0.5"}, "--optimizer ftrl");
  ExpectError({"--optimizer", "ftrl", "--decay", "0.1"}, "decay (--decay) does not apply");
  ExpectError({"--optimizer", "ftrl", "--learning-rate", "1e9"},
              "learning_rate (--learning-rate): the optimizer ftrl");
  ExpectError({"--ftrl-beta", "0"}, "ftrl_beta");
}

TEST_F(JobFlagsTest, AFactorizationMachineLearnsInOnePassByGradients) {
  const StatusOr<JobConfig> config = Load({"--model", "fm", "--factors", "4", "--ids", "a,b*c"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().embedding().factors(), 4u);
  EXPECT_EQ(config->features().ids_size(), 2);
  ExpectError({"--model", "fm", "--schedule", "buffer"}, "one pass");
  ExpectError({"--model", "fm", "--update", "weight-change"}, "gradients");
  ExpectError({"--model", "fm", "--admit-after", "0"}, "admit_after");
  ExpectError({"--embedding-l2", "-1"}, "embedding.l2");
}

TEST_F(JobFlagsTest, ANetworkHasLayersAndFactorsToLearnFrom) {
  const StatusOr<JobConfig> config = Load({"--model", "deepfm", "--hidden", "16,8", "--ids", "a"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().model(), Training::DEEP_FM);
  EXPECT_THAT(config->training().hidden(), testing::ElementsAre(16u, 8u));
  EXPECT_TRUE(Load({"--model", "deepfm"}).ok());
  ExpectError({"--model", "fm", "--hidden", "16"}, "--model deepfm");
  ExpectError({"--model", "deepfm", "--factors", "0"}, "factors");
  ExpectError({"--model", "deepfm", "--hidden", "16,0"}, "1 to 4096 units");
  ExpectError({"--model", "deepfm", "--schedule", "buffer"}, "one pass");
}

TEST_F(JobFlagsTest, ANetworkTakesEveryScheduleAndClassWeightsButOnlyGradients) {
  EXPECT_TRUE(Load({"--model", "network", "--hidden", "16,8", "--class-weight", "a=2"}).ok());
  EXPECT_TRUE(Load({"--model", "network", "--schedule", "buffer", "--wide-above", "0"}).ok());
  ExpectError({"--model", "network", "--hidden", "16,0"}, "1 to 4096 units");
  ExpectError({"--model", "network", "--update", "weight-change"}, "give --update gradient");
}

TEST_F(JobFlagsTest, UpdatesAreCompressedByRoundingAndByAFraction) {
  const StatusOr<JobConfig> config = Load({"--compress", "bf16", "--top-k", "0.1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().compression().values(), Training::Compression::BF16);
  EXPECT_EQ(config->training().compression().top_k(), 0.1);
  ExpectError({"--compress", "fp8"}, "--compress: 'fp8' is not one of none, fp16, bf16");
  ExpectError({"--top-k", "0"}, "top_k (--top-k): 0 is not above 0 and at most 1");
  ExpectError({"--top-k", "2"}, "top_k (--top-k): 2 is not above 0 and at most 1");
  ExpectError({"--embedding-init", "1e9"},
              "embedding.initial_limit (--embedding-init): 1e+09 is not between 0 and 1e+06");
  ExpectError({"--top-k", "0.1", "--update", "weight-change"}, "gradients only");
}

TEST_F(JobFlagsTest, APasswordWithoutItsQuotesIsNotShown) {
  const std::string error(
      Load({}, "kafka { key: \"sasl.password\" value: hunter2 }").status().message());
  EXPECT_THAT(error, HasSubstr(":1:37: Expected string in quotes"));
  EXPECT_THAT(error, testing::Not(HasSubstr("hunter2")));
}

TEST_F(JobFlagsTest, AFieldThatStandsTwiceIsAnError) {
  EXPECT_THAT(std::string(Load({}, "name: \"a\"\nname: \"b\"").status().message()),
              HasSubstr("name"));
}

TEST_F(JobFlagsTest, AFolderOrAnEmptyFileIsNoReasonToGuess) {
  EXPECT_TRUE(absl::IsNotFound(Load({"--config", folder_.string()}).status()));
  std::ofstream(file_) << "";
  EXPECT_TRUE(Load({"--config", file_.string()}).ok());
}

TEST_F(JobFlagsTest, ServerIdsAreDistinctShardsOfTheJob) {
  EXPECT_TRUE(Load({"--shards", "3", "--server-ids", "0,2"}).ok());
  ExpectError({"--shards", "3", "--server-ids", "0,3"},
              "server_ids (--server-ids): 3 is not one of 3 shards");
  ExpectError({"--shards", "3", "--server-ids", "1,1"},
              "server_ids (--server-ids): 1 is given twice");
  ExpectError({"--shards", "0"}, "shards (--shards): give 1 to");
  ExpectError({"--shards", "2", "--replicas", "2"}, "replicas");
}

TEST_F(JobFlagsTest, ReplicasAreServedWhereTheyAreKeptAndWithWholeCertificates) {
  const std::vector<std::string> kept = {"--shards", "3", "--replicas", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), kept.begin(), kept.end());
    return more;
  };
  const StatusOr<JobConfig> config =
      Load(with({"--replica-listen", "[::]:0", "--replica-advertise", "a.example:0",
                 "--replica-tls-cert", "c", "--replica-tls-key", "k", "--replica-tls-ca", "a"}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server().replica_listen(), "[::]:0");
  EXPECT_EQ(config->server().replica_tls_ca(), "a");
  EXPECT_TRUE(Load({"--replica-tls-ca", "a"}).ok()) << "who only fetches";
  for (const char* wrong : {"9000", "host:", ":9000", "host:65536", "host:9000x", "::1:9000"}) {
    ExpectError(with({"--replica-listen", wrong}), "is not HOST:PORT");
  }
  ExpectError({"--replica-listen", "host:1"}, "--replicas");
  ExpectError(with({"--replica-advertise", "host:1"}), "replica_listen");
  ExpectError(with({"--replica-listen", "host:1", "--replica-advertise", "x"}),
              "replica_advertise (--replica-advertise): 'x' is not");
  ExpectError({"--replica-tls-cert", "c"}, "replica_tls_key");
  ExpectError(with({"--replica-listen", "host:1", "--replica-tls-ca", "a"}),
              "a server with replica_listen needs");
}

TEST_F(JobFlagsTest, ReplicasLeaveTheMachineByMutualTlsOrWhenItIsAllowed) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--shards", "3", "--replicas", "1", "--replica-listen"});
    return more;
  };
  EXPECT_TRUE(Load(with({"127.0.0.1:0"})).ok());
  EXPECT_TRUE(Load(with({"0.0.0.0:1", "--replica-insecure"})).ok());
  ExpectError(with({"0.0.0.0:1"}), "--replica-insecure");
  ExpectError(with({"10.0.0.1:1", "--replica-tls-cert", "c", "--replica-tls-key", "k"}),
              "--replica-tls-ca");
}

TEST_F(JobFlagsTest, ABoundWithoutADelayIsRefused) {
  EXPECT_THAT(
      std::string(Load({}, "training { consistency { model: BOUNDED } }").status().message()),
      HasSubstr("max_delay >= 1"));
}

TEST(JobFlagsOfAllTest, HaveEachFieldOnceAndNoneThatIsLeftOut) {
  CLI::App app;
  JobFlags flags(app);
  constexpr std::string_view kWithout[] = {"server.data_dir",       "server.stay",
                                           "server.checkpoint_now", "worker.data_dir",
                                           "worker.evaluation_log", "worker.stay"};
  flags.AddAll(kWithout);
  // (CLI11 takes them from the end.)
  std::vector<std::string> words = {"x.csv", "--evaluation-log", "t.csv", "--test",
                                    ";",     "--delimiter",      "7",     "--session-timeout",
                                    "a.csv", "--input"};
  app.parse(words);
  const StatusOr<JobConfig> config = flags.Load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->csv().delimiter(), ";");
  EXPECT_EQ(config->producer().input(), "a.csv");
  EXPECT_EQ(config->worker().session_timeout_s(), 7);
  EXPECT_EQ(config->server().evaluation_log(), "x.csv");
  EXPECT_EQ(app.get_option_no_throw("--data-dir"), nullptr);
}

}  // namespace
}  // namespace millrace
