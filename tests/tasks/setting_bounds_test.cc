#include "tasks/setting_bounds.h"

#include <gtest/gtest.h>

#include <limits>

#include "tasks/task_options.h"

namespace millrace {
namespace {

std::string ComplaintAbout(const Training& training) {
  const std::optional<BoundedSetting> setting = FirstOutOfBounds(training);
  return setting ? std::string(setting->field) + ": " + setting->Complaint() : "";
}

TEST(SettingBounds, HoldTheDefaults) {
  Training training;
  EXPECT_EQ(ComplaintAbout(training), "");
  SetDefaultLearningRate(training);
  EXPECT_EQ(ComplaintAbout(training), "");
}

TEST(SettingBounds, AreToldWithTheFieldAndItsValue) {
  Training rate;
  rate.mutable_optimizer()->set_learning_rate(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(ComplaintAbout(rate),
            "training.optimizer.learning_rate: nan is not above 0 and at most 1e+18");
  Training momentum;
  momentum.mutable_optimizer()->set_momentum(1);
  EXPECT_EQ(ComplaintAbout(momentum),
            "training.optimizer.momentum: 1 is not at least 0 and below 1");
  Training limit;
  limit.set_huber_limit(0);
  EXPECT_EQ(ComplaintAbout(limit), "training.huber_limit: 0 is not between 0.001 and 1e+06");
  Training l2;
  l2.set_l2(-1);
  EXPECT_EQ(ComplaintAbout(l2), "training.l2: -1 is not a number of 0 or more");
  Training admission;
  admission.mutable_embedding()->set_admit_after(0);
  EXPECT_EQ(ComplaintAbout(admission),
            "training.embedding.admit_after: 0 is not a number of 1 or more");
}

TEST(SettingBounds, AreThoseOfFloatsWhereTheStepComputesInFloats) {
  Training training;
  training.mutable_optimizer()->set_epsilon(1e-60);
  EXPECT_NE(ComplaintAbout(training), "");
}

}  // namespace
}  // namespace millrace
