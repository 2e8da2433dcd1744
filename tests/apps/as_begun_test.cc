#include "apps/as_begun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/job_flags.h"
#include "apps/publish_settings.h"
#include "producer/job_features.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr ProgramsOfJob kAll = {.train = true, .send_rows = true};

JobConfig ConfigOf(const std::string& text) {
  JobConfig config;
  EXPECT_TRUE(ParseConfigText(text, "test", config).ok());
  return config;
}

JobConfig Given() {
  return ConfigOf(R"(
      name: "flights" workers: 4 shards: 2
      features { label: "late" numeric: ["a", "b"] categorical: ["c"] bins: ["a:2"] }
      training { batch_rows: 8 })");
}

// As its programs publish it, which have found the classes, and chosen what was not given.
BegunJob Begun() {
  JobConfig config = Given();
  SetDefaults(*config.mutable_training());
  FeatureSpec spec = CompleteSpec(config.features());
  for (const char* name : {"no", "yes"}) spec.add_classes(name);
  FeatureSpec::BinEdges& edges = *spec.add_bin_edges();
  edges.set_column("a");
  edges.add_edge(0.5);
  spec.set_categorical_buckets(64);
  BegunJob begun;
  const StatusOr<JobFeatures> features = FeaturesOf(config, spec, {.is_for_one_worker = true}, {});
  EXPECT_TRUE(features.ok()) << features.status();
  begun.features = *features;
  begun.training = *SettingsOf(config, "flights-3");
  return begun;
}

std::string Refusal(const JobConfig& config, const ProgramsOfJob& programs = kAll) {
  const Status status = CheckAsBegun(config, programs, Begun());
  EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

TEST(CheckAsBegun, WhatTheJobFoundAndChoseIsNoDifference) {
  EXPECT_EQ(Refusal(Given()), "");
  EXPECT_TRUE(CheckAsBegun(Given(), kAll, BegunJob()).ok());
}

TEST(CheckAsBegun, NamesWhatDiffersAndTheRemedy) {
  JobConfig config = Given();
  config.set_workers(3);
  EXPECT_THAT(Refusal(config), HasSubstr("started with --workers 4, here are 3"));
  config = Given();
  config.set_shards(3);
  EXPECT_THAT(Refusal(config), HasSubstr("modified: shards: 2 -> 3"));
  config = Given();
  config.mutable_training()->set_batch_rows(16);
  EXPECT_THAT(Refusal(config), HasSubstr("batch_rows: 8 -> 16"));
  EXPECT_THAT(Refusal(config), HasSubstr("start a new job (another --job)"));
  config = Given();
  config.mutable_training()->set_sharding(Training::DYNAMIC);
  EXPECT_THAT(Refusal(config), HasSubstr("begun with --sharding static, which cannot be changed"));
  config = Given();
  config.mutable_features()->set_numeric(1, "d");
  EXPECT_THAT(Refusal(config), HasSubstr("modified: spec.numeric[1]: \"b\" -> \"d\""));
}

TEST(CheckAsBegun, IsSilentOfWhatNoProgramIsGiven) {
  JobConfig config = Given();
  config.mutable_training()->set_batch_rows(16);
  config.mutable_features()->set_numeric(1, "d");
  EXPECT_EQ(Refusal(config, {}), "");
  EXPECT_THAT(Refusal(config, {.train = true}), HasSubstr("batch_rows"));
  EXPECT_THAT(Refusal(config, {.send_rows = true}), HasSubstr("numeric"));
  config.set_workers(3);
  EXPECT_THAT(Refusal(config, {}), HasSubstr("--workers"));
}

TEST(CheckAsBegun, OfAJobThatHasEndedNothingIsStarted) {
  JobConfig config = Given();
  config.set_workers(3);
  BegunJob begun = Begun();
  begun.has_ended = true;
  EXPECT_TRUE(CheckAsBegun(config, kAll, begun).ok());
}

}  // namespace
}  // namespace millrace
