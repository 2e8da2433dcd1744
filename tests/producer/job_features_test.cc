#include "producer/job_features.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

std::vector<std::string> TokensOf(const FeatureSpec& spec) {
  const FeatureSpec complete = CompleteSpec(spec);
  return {complete.missing_tokens().begin(), complete.missing_tokens().end()};
}

TEST(JobFeatures, PublishesTheCellsThatMeanMissing) {
  FeatureSpec spec;
  spec.add_numeric("a");
  EXPECT_TRUE(CompleteSpec(spec).has_missing());
  EXPECT_EQ(TokensOf(spec),
            (std::vector<std::string>{"NA", "N/A", "#N/A", "NaN", "null", "none", "?", "-"}));
  spec.add_missing_tokens("-999");
  EXPECT_EQ(TokensOf(spec), (std::vector<std::string>{"-999"}));
}

TEST(AgreeOnBuckets, AJobThatHasBegunKeepsThoseThatAreNotGiven) {
  FeatureSpec given;
  given.set_text_buckets(9);
  FeatureSpec spec = CompleteSpec(given);
  const auto set_defaults = [](FeatureSpec& chosen) {
    if (!chosen.has_categorical_buckets()) chosen.set_categorical_buckets(262'144);
    if (!chosen.has_text_buckets()) chosen.set_text_buckets(262'144);
  };
  AgreeOnBuckets(nullptr, given, set_defaults, spec);
  EXPECT_EQ(spec.categorical_buckets(), 262'144u);
  EXPECT_EQ(spec.text_buckets(), 9u);
  FeatureSpec published;  // by a version with other defaults
  published.set_categorical_buckets(4096);
  published.set_text_buckets(1024);
  AgreeOnBuckets(&published, given, set_defaults, spec);
  EXPECT_EQ(spec.categorical_buckets(), 4096u);
  EXPECT_EQ(spec.text_buckets(), 9u) << "another number is given, which the job refuses";
}

constexpr StreamTraits kFile = {};
constexpr StreamTraits kLive = {.is_live = true};

TEST(DealingOfNewJob, HasLongTurnsWhereRowsComeAsFastAsTheyAreTaken) {
  JobConfig config;
  config.set_workers(3);
  Producer& settings = *config.mutable_producer();
  const auto turns_of = [](uint32_t rows, uint32_t most) { return Dealing{3, rows, most}; };
  EXPECT_EQ(DealingOfNewJob(config, kFile), turns_of(256, 1024));
  EXPECT_EQ(DealingOfNewJob(config, kLive), turns_of(1, 0));
  for (const auto& [rate, rows] : {std::pair(0.5, 1U), {100.0, 10U}, {320.0, 32U}, {1e9, 32U}}) {
    settings.set_rate(rate);
    EXPECT_EQ(DealingOfNewJob(config, kFile), turns_of(rows, 0));
    EXPECT_EQ(DealingOfNewJob(config, kLive), turns_of(rows, 0));
  }
  settings.clear_rate();
  settings.set_time_column("t");
  EXPECT_EQ(DealingOfNewJob(config, kFile), turns_of(1, 0));
  settings.set_rows_per_turn(7);
  EXPECT_EQ(DealingOfNewJob(config, kFile), turns_of(7, 0));
  EXPECT_EQ(DealingOfNewJob(config, kLive), turns_of(7, 0));
}

TEST(DealingOfNewJob, GivesAllRowsToOneWorkerIfItIsForOne) {
  constexpr StreamTraits kForOne = {.is_for_one_worker = true};
  JobConfig config;
  config.set_workers(4);
  EXPECT_EQ(DealingOfNewJob(config, kForOne), (Dealing{1, 256, 1024}));
  config.mutable_producer()->set_rate(20);
  EXPECT_EQ(DealingOfNewJob(config, kForOne), (Dealing{1, 2, 0}));
}

TEST(FeaturesOf, SayWhichWorkersHaveRowsAsLongAsTheJobLasts) {
  constexpr StreamTraits kForOne = {.is_for_one_worker = true};
  JobConfig config;
  config.set_workers(4);
  FeatureSpec spec;
  spec.set_label("y");
  spec.add_numeric("x");
  spec.set_regression(true);
  *config.mutable_features() = spec;
  spec = CompleteSpec(spec);
  const JobFeatures all = *FeaturesOf(config, spec, kFile, std::nullopt);
  EXPECT_EQ(all.dealt_workers(), 0u);
  EXPECT_EQ(FeaturesOf(config, spec, kForOne, all)->dealt_workers(), 0u);
  const JobFeatures one = *FeaturesOf(config, spec, kForOne, std::nullopt);
  EXPECT_EQ(one.workers(), 4u);
  EXPECT_EQ(one.dealt_workers(), 1u);
  EXPECT_EQ(FeaturesOf(config, spec, kFile, one)->dealt_workers(), 1u);
  EXPECT_EQ(FeaturesAsBegun(config, one)->dealt_workers(), 1u);
}

TEST(AgreeOnDealing, AJobThatHasBegunKeepsItsTurnsUnlessOthersAreGiven) {
  JobConfig config;
  config.set_workers(3);
  JobFeatures published;
  published.set_workers(3);
  published.set_rows_per_turn(64);
  published.set_most_rows_per_turn(500);
  EXPECT_EQ(*AgreeOnDealing(config, kLive, published), (Dealing{3, 64, 500}));
  config.mutable_producer()->set_rows_per_turn(64);
  EXPECT_EQ(*AgreeOnDealing(config, kLive, published), (Dealing{3, 64, 500}));
  config.mutable_producer()->set_rows_per_turn(32);
  EXPECT_EQ(*AgreeOnDealing(config, kLive, published), (Dealing{3, 32, 0}))
      << "another number is given, which the job refuses";
}

TEST(AgreeOnDealing, RefusesTurnsThatNobodyMayHavePublished) {
  JobConfig config;
  config.set_workers(3);
  JobFeatures published;
  published.set_workers(3);
  published.set_rows_per_turn(1);
  published.set_most_rows_per_turn(Dealing::kMostRowsPerTurn + 1);
  EXPECT_TRUE(absl::IsDataLoss(AgreeOnDealing(config, kFile, published).status()));
  published.set_rows_per_turn(Dealing::kMostRowsPerTurn + 1);
  published.clear_most_rows_per_turn();
  EXPECT_TRUE(absl::IsDataLoss(AgreeOnDealing(config, kFile, published).status()));
  published.set_rows_per_turn(1);
  published.set_dealt_workers(3);
  EXPECT_TRUE(AgreeOnDealing(config, kFile, published).ok());
  published.set_dealt_workers(4);
  EXPECT_TRUE(absl::IsDataLoss(AgreeOnDealing(config, kFile, published).status()));
}

TEST(JobFeatures, WhereNoCellCanBeMissingTheTokensAreNoDifference) {
  FeatureSpec spec;
  spec.add_text("t");
  spec.add_missing_tokens("x");
  EXPECT_TRUE(TokensOf(spec).empty());
  spec.add_numeric("a");
  spec.set_missing(FeatureSpec::REJECT);
  EXPECT_TRUE(TokensOf(spec).empty());
}

TEST(JobFeatures, WritesOutWhichColumnsHaveHowManyBins) {
  FeatureSpec spec;
  for (const char* column : {"a", "b"}) spec.add_numeric(column);
  for (const char* item : {"b:4", "all", "c"}) spec.add_bins(item);
  const FeatureSpec complete = CompleteSpec(spec);
  EXPECT_EQ((std::vector<std::string>{complete.bins().begin(), complete.bins().end()}),
            (std::vector<std::string>{"a:16", "b:4", "c:16"}));
  EXPECT_EQ(CompleteSpec(complete).SerializeAsString(), complete.SerializeAsString());
  spec.add_bins("b");  // for ValidateColumns() to refuse
  EXPECT_EQ(CompleteSpec(spec).bins_size(), 4);
}

std::vector<std::string> Strings(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

TEST(JobFeatures, BooleansAreNumericColumns) {
  FeatureSpec spec;
  for (const char* column : {"a", "b"}) spec.add_booleans(column);
  spec.add_numeric("b");
  const FeatureSpec complete = CompleteSpec(spec);
  EXPECT_EQ(Strings(complete.numeric()), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(CompleteSpec(complete).SerializeAsString(), complete.SerializeAsString());
}

TEST(JobFeatures, ATimeOfWhichNothingIsNamedHasAllOfItsParts) {
  FeatureSpec spec;
  for (const char* column : {"at", "born*", "seen"}) spec.add_times(column);
  spec.add_categorical("seen.hour*c");
  const FeatureSpec complete = CompleteSpec(spec);
  EXPECT_EQ(Strings(complete.numeric()), (std::vector<std::string>{"at.days", "born*.days"}));
  EXPECT_EQ(Strings(complete.categorical()),
            (std::vector<std::string>{"seen.hour*c", "at.hour", "at.weekday", "at.month",
                                      "\"born*.hour\"", "\"born*.weekday\"", "\"born*.month\""}));
  EXPECT_EQ(CompleteSpec(complete).SerializeAsString(), complete.SerializeAsString());
}

TEST(JobFeatures, AColumnOfBinsThatIsCalledAllIsNotAll) {
  FeatureSpec spec;
  spec.add_numeric("n");
  spec.add_bins("\"all\"");
  const FeatureSpec complete = CompleteSpec(spec);
  EXPECT_EQ(Strings(complete.bins()), (std::vector<std::string>{"\"all\":16"}));
  EXPECT_EQ(CompleteSpec(complete).SerializeAsString(), complete.SerializeAsString());
}

// A job that an older version started goes on.
TEST(JobFeatures, WhatIsNotGivenIsNotWritten) {
  FeatureSpec spec;
  spec.add_numeric("n");
  spec.set_decimal_comma(false);
  EXPECT_FALSE(CompleteSpec(spec).has_decimal_comma());
}

TEST(JobFeatures, TheLabelIsLeftOutWhereverItIsListed) {
  FeatureSpec spec;
  spec.set_label("y");
  for (const char* column : {"y", "n", "y.days"}) spec.add_numeric(column);
  for (const char* term : {"y", "\"y\"*c", "c", "yy", "y.hour*c"}) spec.add_categorical(term);
  for (const char* term : {"c*y", "i"}) spec.add_ids(term);
  for (const char* item : {"y:8", "all", "n"}) spec.add_bins(item);
  for (const char* column : {"y", "t"}) {
    spec.add_text(column);
    spec.add_booleans(column);
  }
  const FeatureSpec without = WithoutLabel(spec);
  EXPECT_EQ(Strings(without.numeric()), (std::vector<std::string>{"n", "y.days"}));
  EXPECT_EQ(Strings(without.categorical()), (std::vector<std::string>{"c", "yy", "y.hour*c"}));
  EXPECT_EQ(Strings(without.ids()), (std::vector<std::string>{"i"}));
  EXPECT_EQ(Strings(without.bins()), (std::vector<std::string>{"all", "n"}));
  EXPECT_EQ(Strings(without.text()), (std::vector<std::string>{"t"}));
  EXPECT_EQ(Strings(without.booleans()), (std::vector<std::string>{"t"}));
  spec.add_times("y");
  EXPECT_EQ(Strings(WithoutLabel(spec).numeric()), (std::vector<std::string>{"n"}));
  EXPECT_EQ(Strings(WithoutLabel(spec).categorical()), (std::vector<std::string>{"c", "yy"}));
  EXPECT_TRUE(WithoutLabel(spec).times().empty());
}

TEST(JobFeatures, ColumnsOfBinsHaveCellsThatMeanMissingToo) {
  FeatureSpec spec;
  spec.add_bins("a");
  EXPECT_FALSE(TokensOf(spec).empty());
}

}  // namespace
}  // namespace millrace
