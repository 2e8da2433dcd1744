#include "tasks/checkpoint_schedule.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::milliseconds;

class CheckpointScheduleTest : public testing::Test {
 protected:
  CheckpointSchedule::Time At(int ms) const { return start_ + milliseconds(ms); }
  static Unsaved Bytes(size_t bytes) { return {.records = 1, .bytes = bytes}; }

  const CheckpointSchedule::Time start_ = std::chrono::steady_clock::now();
  CheckpointSchedule schedule_{std::chrono::duration<double>(1), 100, 0, start_};
};

TEST_F(CheckpointScheduleTest, OneIsDueEveryIntervalWhereItTakesLittleTime) {
  EXPECT_FALSE(schedule_.Due(At(999), Bytes(1000)));
  EXPECT_TRUE(schedule_.Due(At(1000), Bytes(1000)));
  schedule_.Begin(At(1000), 1000);
  schedule_.End(At(1250));  // a quarter of the interval
  EXPECT_FALSE(schedule_.Due(At(1999), Bytes(1000)));
  EXPECT_TRUE(schedule_.Due(At(2000), Bytes(1000)));
}

TEST_F(CheckpointScheduleTest, WritingTakesAtMostAQuarterOfTheTime) {
  schedule_.Begin(At(1000), 1000);
  schedule_.End(At(3000));
  EXPECT_FALSE(schedule_.Due(At(8999), Bytes(1000)));
  EXPECT_TRUE(schedule_.Due(At(9000), Bytes(1000)));
}

TEST_F(CheckpointScheduleTest, AfterABurstASmallOneDoesNotWaitLong) {
  schedule_.Begin(At(1000), 1000);
  schedule_.End(At(11000));
  EXPECT_FALSE(schedule_.Due(At(11299), Bytes(10))) << "three times a tenth of a second";
  EXPECT_TRUE(schedule_.Due(At(11300), Bytes(10)));
  EXPECT_FALSE(schedule_.Due(At(11300), Bytes(11)));
  EXPECT_FALSE(schedule_.Due(At(40999), Bytes(2000)));
  EXPECT_TRUE(schedule_.Due(At(41000), Bytes(2000))) << "no longer than by the last one";
}

TEST_F(CheckpointScheduleTest, NoneIsDueWhereThereIsNothingToSave) {
  EXPECT_FALSE(schedule_.Due(At(1'000'000), Unsaved()));
}

TEST_F(CheckpointScheduleTest, OneWhoseEndNobodySaysIsNotTakenForTheOneBefore) {
  schedule_.Begin(At(1000), 1000);
  schedule_.End(At(11000));
  schedule_.Begin(At(12000), 10);  // the end of a snapshot's is not said, say
  EXPECT_TRUE(schedule_.Due(At(13000), Bytes(10))) << "after 10 s for a hundred times as much";
}

TEST_F(CheckpointScheduleTest, ReplicasWriteToo) {
  CheckpointSchedule schedule(std::chrono::duration<double>(1), 100, /*replicas=*/2, start_);
  schedule.Begin(At(1000), 1000);
  schedule.End(At(3000));
  EXPECT_FALSE(schedule.Due(At(16999), Bytes(1000))) << "an eighth of the time";
  EXPECT_TRUE(schedule.Due(At(17000), Bytes(1000)));
}

TEST_F(CheckpointScheduleTest, ManyRecordsOrShortMemoryMakeOneDueAtOnce) {
  schedule_.Begin(At(1000), 1000);
  schedule_.End(At(3000));
  EXPECT_FALSE(schedule_.Due(At(3001), {.records = 99, .bytes = 1000}));
  EXPECT_TRUE(schedule_.Due(At(3001), {.records = 100, .bytes = 1000}));
  EXPECT_TRUE(schedule_.Due(At(3001), {.records = 1, .bytes = 1000, .is_short_of_room = true}));
}

}  // namespace
}  // namespace millrace
