#include "topics/batch_wait.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(BatchWaitOf(training), 0.2) << "who asks for it has it";
  training.set_schedule(Training::BUFFER);
  EXPECT_EQ(BatchWaitOf(training), 0);
}

}  // namespace
}  // namespace millrace
