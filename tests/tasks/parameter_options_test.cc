#include "tasks/parameter_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tasks/task_options.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

JobFeatures Parameters(const std::string& handler = "") {
  JobFeatures features;
  features.set_epoch(1);
  features.set_workers(2);
  NamedParameter& w = *features.add_parameters();
  w.set_name("w");
  w.add_shape(5);
  w.add_shape(2);
  w.set_handler(handler);
  w.set_learning_rate_multiplier(2);
  w.set_decay_multiplier(0);
  return features;
}

Training External() {
  Training training;
  training.set_model(Training::EXTERNAL);
  SetDefaults(training);
  return training;
}

std::string Complaint(const JobFeatures& features, const Training& training) {
  return std::string(CheckModel(features, training).message());
}

TEST(ParameterOptionsTest, TheKeysAreThoseOfTheParameters) {
  JobTraining training;
  *training.mutable_training() = External();
  training.set_shards(2);
  EXPECT_TRUE(CheckModel(Parameters(), training.training()).ok());
  EXPECT_EQ(MakeModel(Parameters(), training.training())->parameter_count(), 10u);
  const ServerOptions options = MakeServerOptions(Parameters(), training, 1);
  EXPECT_EQ(options.range, (KeyRange{5, 10}));
  ASSERT_EQ(options.parameters.size(), 1u);
  EXPECT_EQ(options.parameters[0].keys, (KeyRange{0, 10}));
  EXPECT_FALSE(options.embeddings.has_value());
}

TEST(ParameterOptionsTest, TheRateIsTheJobsTimesTheMultiplierAndTheDecayLikewise) {
  JobTraining training;
  *training.mutable_training() = External();
  training.set_shards(1);
  training.mutable_training()->mutable_optimizer()->set_learning_rate(0.25);
  training.mutable_training()->set_l2(100);
  const ServerOptions options = MakeServerOptions(Parameters("sgd"), training, 0);
  float value = 1;
  const float gradient = 1;
  ASSERT_TRUE(
      options.parameters[0]
          .handler
          ->HandleUpdate({.values = {&value, 1}, .slots = {}, .updates = 0}, {&gradient, 1}, 1)
          .ok());
  EXPECT_EQ(value, 0.5f);
}

TEST(ParameterOptionsTest, DefaultsAreThoseOfTheFlags) {
  EXPECT_EQ(External().update().kind(), Training::Update::GRADIENT);
  EXPECT_EQ(External().optimizer().learning_rate(), 0.3);
}

TEST(ParameterOptionsTest, AModelOfOursHasNoParametersAndTheirsHasSome) {
  EXPECT_THAT(Complaint(Parameters(), Training()), HasSubstr("--model external"));
  EXPECT_THAT(Complaint(JobFeatures(), External()), HasSubstr("no parameters"));
  EXPECT_TRUE(CheckLearnsRows(JobFeatures()).ok());
  EXPECT_THAT(CheckLearnsRows(Parameters()).message(), HasSubstr("no rows to learn from"));
  EXPECT_TRUE(CheckHasModel(JobFeatures()).ok());
  EXPECT_THAT(CheckHasModel(Parameters()).message(), HasSubstr("--weights-file"));
}

TEST(ParameterOptionsTest, RefusesFeaturesBesideThem) {
  JobFeatures features = Parameters();
  features.set_feature_count(3);
  EXPECT_THAT(Complaint(features, External()), HasSubstr("beside features"));
  features.set_feature_count(0);
  features.mutable_spec()->add_classes("a");
  EXPECT_THAT(Complaint(features, External()), HasSubstr("beside features"));
}

TEST(ParameterOptionsTest, RefusesSettingsOfWhatIsNotThere) {
  Training training = External();
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--update"));
  training = External();
  training.mutable_compression()->set_top_k(0.5);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--top-k"));
  training = External();
  training.mutable_compression()->set_values(Training::Compression::BF16);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--compress"));
  training = External();
  training.set_schedule(Training::BUFFER);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--schedule"));
  training = External();
  training.set_sharding(Training::DYNAMIC);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--sharding"));
  training = External();
  training.set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_THAT(Complaint(Parameters(), training), HasSubstr("--distribution-strategy"));
}

TEST(ParameterOptionsTest, RefusesFtrlWhereItsFormulaHasNoValue) {
  Training training = External();
  EXPECT_EQ(Complaint(Parameters("ftrl"), training), "");
  training.mutable_optimizer()->set_decay(0.1);
  EXPECT_THAT(Complaint(Parameters("ftrl"), training), HasSubstr("--decay"));
  EXPECT_EQ(Complaint(Parameters("adagrad"), training), "");
  JobFeatures frozen = Parameters("ftrl");
  frozen.mutable_parameters(0)->set_learning_rate_multiplier(0);
  EXPECT_THAT(Complaint(frozen, External()), HasSubstr("learning rate"));
  frozen.mutable_parameters(0)->set_handler("");
  EXPECT_EQ(Complaint(frozen, External()), "");
  training = External();
  training.mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_THAT(Complaint(frozen, training), HasSubstr("learning rate"));
}

}  // namespace
}  // namespace millrace
