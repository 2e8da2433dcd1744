#include "tasks/group_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tasks/task_options.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

JobFeatures Rows() {
  JobFeatures features;
  features.set_workers(2);
  features.mutable_spec()->add_classes("a");
  features.mutable_spec()->add_classes("b");
  features.mutable_spec()->add_numeric("x");
  features.set_feature_count(1);
  return features;
}

JobFeatures Parameters(const std::string& handler) {
  JobFeatures features;
  features.set_workers(2);
  NamedParameter& parameter = *features.add_parameters();
  parameter.set_name("p");
  parameter.add_shape(3);
  parameter.set_handler(handler);
  parameter.set_learning_rate_multiplier(1);
  parameter.set_decay_multiplier(1);
  return features;
}

std::string ErrorOf(const JobFeatures& features, Training training) {
  if (features.parameters().empty()) SetDefaults(training);
  return std::string(CheckModelInGroups(features, training).message());
}

TEST(GroupChecks, LetGroupsTrainDenseModels) {
  EXPECT_EQ(ErrorOf(Rows(), {}), "") << "online";
  Training training;
  training.set_model(Training::NETWORK);
  EXPECT_EQ(ErrorOf(Rows(), training), "");
  training.Clear();
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  EXPECT_EQ(ErrorOf(Rows(), training), "");
  training.Clear();
  training.set_model(Training::EXTERNAL);
  for (const char* handler : {"add", "sgd", "momentum", "adagrad", "adam", ""}) {
    EXPECT_EQ(ErrorOf(Parameters(handler), training), "") << handler;
  }
}

TEST(GroupChecks, RefuseWhatIsLostWhenItIsAddedTo) {
  Training training;
  training.mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
  EXPECT_THAT(ErrorOf(Rows(), training), HasSubstr("--optimizer ftrl follow from its own sums"));
  training.Clear();
  training.set_model(Training::EXTERNAL);
  EXPECT_THAT(ErrorOf(Parameters("ftrl"), training), HasSubstr("the parameter p follow from"));
  EXPECT_THAT(ErrorOf(Parameters("assign"), training), HasSubstr("takes the last update"));
}

TEST(GroupChecks, RefuseWhatTheyDoNotExchange) {
  JobFeatures features = Rows();
  features.mutable_spec()->add_ids("id");
  EXPECT_THAT(ErrorOf(features, {}), HasSubstr("it has embedding rows"));
  Training training;
  training.set_on_drift(Training::FORGET);
  EXPECT_THAT(ErrorOf(Rows(), training), HasSubstr("--on-drift forget"));
  training.Clear();
  training.set_sharding(Training::DYNAMIC);
  EXPECT_THAT(ErrorOf(Rows(), training), HasSubstr("--sharding dynamic"));
  training.Clear();
  training.set_model(Training::EXTERNAL);
  JobFeatures tables = Parameters("add");
  tables.mutable_parameters(0)->mutable_table();
  EXPECT_THAT(ErrorOf(tables, training), HasSubstr("the rows of the table p"));
}

}  // namespace
}  // namespace millrace
