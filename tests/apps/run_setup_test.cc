#include "apps/run_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "apps/job_flags.h"
#include "apps/version.h"
#include "topics/metric_point_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::map<std::string, std::string> SettingsOf(const MetricPoint::Setup& setup) {
  std::map<std::string, std::string> settings;
  for (const auto& each : setup.setting()) settings[each.flag()] = each.value();
  return settings;
}

JobConfig ConfigOf(const std::string& text) {
  JobConfig config;
  EXPECT_TRUE(ParseConfigText(text, "test", config).ok());
  return config;
}

// As the server has it when it begins.
MetricPoint::Setup SetupOf(const JobConfig& config, int64_t published_ms = 0) {
  JobFeatures features;
  *features.mutable_spec() = config.features();
  features.set_feature_count(12);
  JobTraining training;
  *training.mutable_training() = config.training();
  return ServerSetup(config, features, training, published_ms);
}

TEST(RunSetup, TellsTheSettingsThatAreNotTheDefault) {
  const MetricPoint::Setup setup = SetupOf(ConfigOf(R"(
      workers: 3 shards: 1
      features { label: "late" numeric: ["a", "b"] classes: ["no", "yes"] }
      training { model: DEEP_FM hidden: [8, 4] consistency { model: BOUNDED max_delay: 2 } }
      server { checkpoint_interval_s: 2 test_file: "/home/me/heldout.csv" })"),
                                           1'764'134'152'000);
  EXPECT_THAT(
      SettingsOf(setup),
      ElementsAre(Pair("--checkpoint-interval", "2"), Pair("--classes", "no,yes"),
                  Pair("--consistency", "bounded:2"), Pair("--hidden", "8,4"),
                  Pair("--label", "late"), Pair("--model", "deepfm"), Pair("--numeric", "a,b"),
                  Pair("--test", "heldout.csv"), Pair("--workers", "3")));
  EXPECT_EQ(setup.version(), MillraceVersion());
  EXPECT_EQ(setup.job_started_ms(), 1'764'134'152'000);
  EXPECT_EQ(setup.feature_count(), 12u);
  EXPECT_EQ(setup.class_count(), 2u);
}

TEST(RunSetup, TellsNoSecretsAddressesOrFolders) {
  const JobConfig config = ConfigOf(R"(
      name: "private" brokers: "private:9092"
      kafka { key: "sasl.password" value: "private" }
      producer { input: "/private/rows.csv" reject_file: "private" rate: 5 }
      server { data_dir: "private" snapshot_dir: "private" replica_listen: "private:1"
               replica_tls_key: "private" weights_file: "private" })");
  EXPECT_TRUE(SettingsOf(SetupOf(config)).empty());
  EXPECT_THAT(SettingsOf(ProducerSetup(config)),
              ElementsAre(Pair("--input", "rows.csv"), Pair("--rate", "5")));
}

TEST(RunSetup, TellsWhatTheJobBeganWith) {
  JobFeatures features;
  features.set_rows_per_turn(256);
  JobTraining training;
  training.set_start("flights-5, a new stream");
  EXPECT_THAT(SettingsOf(ServerSetup({}, features, training, 0)),
              ElementsAre(Pair("--from-snapshot", "flights-5, a new stream"),
                          Pair("--rows-per-turn", "256")));
  features.set_most_rows_per_turn(1024);
  EXPECT_THAT(SettingsOf(ServerSetup({}, features, {}, 0)),
              ElementsAre(Pair("--rows-per-turn", "256 to 1024")));
}

TEST(RunSetup, FitsIntoAPointWhateverTheNamesAre) {
  JobConfig config;
  config.mutable_features()->set_label("\x1b[2J\xff");
  for (int i = 0; i < 1'000; ++i) {
    config.mutable_features()->add_numeric("\xc3\xa9" + std::to_string(i));
  }
  MetricPoint point;
  *point.mutable_server()->mutable_setup() = SetupOf(config, INT64_MAX);
  EXPECT_TRUE(CheckMetricPoint(point).ok()) << CheckMetricPoint(point);
  std::map<std::string, std::string> settings = SettingsOf(point.server().setup());
  EXPECT_EQ(settings["--label"], "\\x1b[2J\\xff");
  EXPECT_THAT(settings["--numeric"], HasSubstr("... (5889 bytes, CRC-32C "));
  // Lists that begin alike are told apart.
  config.mutable_features()->set_numeric(999, "another");
  EXPECT_NE(SettingsOf(SetupOf(config))["--numeric"], settings["--numeric"]);
}

}  // namespace
}  // namespace millrace
