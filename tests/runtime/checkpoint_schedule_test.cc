#include "runtime/checkpoint_schedule.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::milliseconds;

class CheckpointScheduleTest : public testing::Test {
 protected:
  CheckpointSchedule::Time At(int ms) const { return start_ + milliseconds(ms); }

  const CheckpointSchedule::Time start_ = std::chrono::steady_clock::now();
  CheckpointSchedule schedule_{std::chrono::duration<double>(1), 100, 0, start_};
};

TEST_F(CheckpointScheduleTest, OneIsDueEveryIntervalWhereItTakesLittleTime) {
  EXPECT_FALSE(schedule_.Due(At(999), 0, false));
  EXPECT_TRUE(schedule_.Due(At(1000), 0, false));
  schedule_.Begin(At(1000));
  schedule_.End(At(1250));  // a quarter of the interval
  EXPECT_FALSE(schedule_.Due(At(1999), 0, false));
  EXPECT_TRUE(schedule_.Due(At(2000), 0, false));
}

TEST_F(CheckpointScheduleTest, WritingTakesAtMostAQuarterOfTheTime) {
  schedule_.Begin(At(1000));
  schedule_.End(At(3000));
  EXPECT_FALSE(schedule_.Due(At(8999), 0, false));
  EXPECT_TRUE(schedule_.Due(At(9000), 0, false));
}

TEST_F(CheckpointScheduleTest, ReplicasWriteToo) {
  CheckpointSchedule schedule(std::chrono::duration<double>(1), 100, /*replicas=*/2, start_);
  schedule.Begin(At(1000));
  schedule.End(At(3000));
  EXPECT_FALSE(schedule.Due(At(16999), 0, false)) << "an eighth of the time";
  EXPECT_TRUE(schedule.Due(At(17000), 0, false));
}

TEST_F(CheckpointScheduleTest, ManyRecordsOrShortMemoryMakeOneDueAtOnce) {
  schedule_.Begin(At(1000));
  schedule_.End(At(3000));
  EXPECT_FALSE(schedule_.Due(At(3001), 99, false));
  EXPECT_TRUE(schedule_.Due(At(3001), 100, false));
  EXPECT_TRUE(schedule_.Due(At(3001), 0, true));
}

}  // namespace
}  // namespace millrace
