#include "producer/row_batches.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinger(5);

class RowBatchesTest : public testing::Test {
 protected:
  void Add(WorkerId worker, RowNumber row) { batches_.Add({worker, row}, row_); }

  RowBatches batches_{2, kLinger};
  Row row_{1, {0.5}, {}, {}};
  Pacer::Time now_{std::chrono::hours(1000)};
};

TEST_F(RowBatchesTest, ARowThatComesAloneIsDueAtOnce) {
  EXPECT_FALSE(batches_.IsDue(0, now_));
  EXPECT_EQ(batches_.NextDue(), std::nullopt);
  for (RowNumber row = 0; row < 3; ++row, now_ += kLinger) {
    Add(0, row);
    ASSERT_TRUE(batches_.IsDue(0, now_));
    EXPECT_EQ(batches_.Take(0, now_).key, (InputKey{row, 1}));
    EXPECT_FALSE(batches_.IsDue(0, now_));
  }
}

TEST_F(RowBatchesTest, RowsThatFollowSoonWaitForEachOtherUntilTheLingerIsOver) {
  Add(0, 7);
  batches_.Take(0, now_);
  Add(0, 8);
  Add(0, 9);
  EXPECT_FALSE(batches_.IsDue(0, now_ + kLinger - milliseconds(1)));
  EXPECT_EQ(batches_.NextDue(), now_ + kLinger);
  EXPECT_TRUE(batches_.IsDue(0, now_ + kLinger));
  EXPECT_EQ(batches_.Take(0, now_).key, (InputKey{8, 2}));
}

TEST_F(RowBatchesTest, APartitionWaitsForNoOther) {
  Add(0, 0);
  batches_.Take(0, now_);
  Add(0, 1);
  Add(1, 0);
  EXPECT_FALSE(batches_.IsDue(0, now_));
  EXPECT_TRUE(batches_.IsDue(1, now_));
  EXPECT_LE(batches_.NextDue(), now_);
}

TEST_F(RowBatchesTest, AFullRecordIsDueAndTakesNoMore) {
  Add(0, 0);
  batches_.Take(0, now_);
  for (RowNumber row = 1; batches_.Takes({0, row}, row_); ++row) Add(0, row);
  EXPECT_TRUE(batches_.IsDue(0, now_));
  EXPECT_EQ(batches_.Take(0, now_).key, (InputKey{1, kMostBatchRows}));
}

}  // namespace
}  // namespace millrace
