#include "topics/batch_wait.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

TEST(BatchWaitOf, IsASecondWhereBytesMayFollowTheClock) {
  Training training;
  EXPECT_EQ(BatchWaitOf(training), 0);
  for (const auto model : {Training::Consistency::EVENTUAL, Training::Consistency::BOUNDED}) {
    training.mutable_consistency()->set_model(model);
    EXPECT_EQ(BatchWaitOf(training), 1);
  }
  training.set_batch_wait_s(0.2);
  EXPECT_EQ(BatchWaitOf(training), 0.2);
  training.mutable_consistency()->set_model(Training::Consistency::SEQUENTIAL);
  EXPECT_EQ(BatchWaitOf(training), 0.2) << "given, also of a sequential job";
  training.set_schedule(Training::BUFFER);
  EXPECT_EQ(BatchWaitOf(training), 0);
}

TEST(BatchWaitOf, IsNoneWhereThePublishedOneMakesNoSense) {
  Training training;
  training.set_batch_wait_s(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(BatchWaitOf(training), 0);
  training.set_batch_wait_s(-1);
  EXPECT_EQ(BatchWaitOf(training), 0);
}

}  // namespace
}  // namespace millrace
