#include "apps/config_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;

JobFeatures GoodFeatures() {
  JobFeatures features;
  features.set_workers(4);
  features.set_feature_count(3);
  features.mutable_spec()->add_classes("no");
  features.mutable_spec()->add_classes("yes");
  features.mutable_spec()->add_numeric("age");
  return features;
}

JobTraining GoodTraining() {
  JobTraining training;
  training.set_shards(2);
  *training.mutable_training() = Training();
  return training;
}

TEST(CheckJob, TakesAJobOfTheDefaults) {
  const Status status = CheckJob(GoodFeatures(), GoodTraining());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckJob, RefusesWhatNoProgramPublishes) {
  struct Case {
    std::string reason;
    std::function<void(JobFeatures&, JobTraining&)> change;
  };
  const std::vector<Case> cases = {
      {"workers: give 1 to 10000", [](auto& f, auto&) { f.set_workers(0); }},
      {"workers: give 1 to 10000", [](auto& f, auto&) { f.set_workers(UINT32_MAX); }},
      {"shards: give 1 to 1000", [](auto&, auto& t) { t.set_shards(0); }},
      {"0 features, 1 of them numeric", [](auto& f, auto&) { f.set_feature_count(0); }},
      {"features, 1 of them numeric", [](auto& f, auto&) { f.set_feature_count(UINT64_MAX); }},
      {"features in 100 classes",
       [](auto& f, auto&) {
         f.set_feature_count(UINT32_MAX);
         while (f.spec().classes_size() < 100) f.mutable_spec()->add_classes("x");
       }},
      {"two classes or more", [](auto& f, auto&) { f.mutable_spec()->clear_classes(); }},
      {"two classes or more",
       [](auto& f, auto&) { f.mutable_spec()->mutable_classes()->RemoveLast(); }},
      {"id columns", [](auto& f, auto&) { f.mutable_spec()->add_ids("plane"); }},
      {"learning_rate",
       [](auto&, auto& t) {
         t.mutable_training()->mutable_optimizer()->set_learning_rate(
             std::numeric_limits<double>::quiet_NaN());
       }},
      {"batch_rows", [](auto&, auto& t) { t.mutable_training()->set_batch_rows(0); }},
  };
  for (const Case& bad : cases) {
    JobFeatures features = GoodFeatures();
    JobTraining training = GoodTraining();
    bad.change(features, training);
    const Status status = CheckJob(features, training);
    EXPECT_TRUE(absl::IsDataLoss(status)) << bad.reason;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.reason));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the job topic"));
  }
}

}  // namespace
}  // namespace millrace
