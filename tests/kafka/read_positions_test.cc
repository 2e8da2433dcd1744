#include "kafka/read_positions.h"

#include <gtest/gtest.h>

namespace millrace::kafka_internal {
namespace {

TEST(ReadPositions, RecordsOfPartitionsThatAreNotReadAreDropped) {
  ReadPositions positions;
  EXPECT_FALSE(positions.AcceptRecord(0, 5));
  positions.Start(0, 5);
  EXPECT_TRUE(positions.AcceptRecord(0, 5));
  positions.Stop(0);
  EXPECT_FALSE(positions.AcceptRecord(0, 6));
  EXPECT_FALSE(positions.AcceptEnd(0, 7));
}

TEST(ReadPositions, ARecordBehindThePositionIsDroppedAndAGapIsNot) {
  ReadPositions positions;
  positions.Start(0, 5);
  EXPECT_FALSE(positions.AcceptRecord(0, 4));
  EXPECT_TRUE(positions.AcceptRecord(0, 9));
  EXPECT_FALSE(positions.AcceptRecord(0, 9));
}

TEST(ReadPositions, AnEndMovesThePositionOverRecordsThatAreNeverHandedOut) {
  ReadPositions positions;
  positions.Start(0, 5);
  EXPECT_TRUE(positions.AcceptEnd(0, 8));
  EXPECT_FALSE(positions.AcceptEnd(0, 7));
  EXPECT_EQ(positions.JudgeOutOfRange(0, 8), ReadPositions::OutOfRange::kReport);
}

TEST(ReadPositions, AnOutOfRangeEventOfAnotherOffsetIsNotReportedButReadingStartsAgain) {
  ReadPositions positions;
  EXPECT_EQ(positions.JudgeOutOfRange(0, 5), ReadPositions::OutOfRange::kIgnore);
  positions.Start(0, 5);
  EXPECT_EQ(positions.JudgeOutOfRange(0, 5), ReadPositions::OutOfRange::kReport);
  EXPECT_EQ(positions.JudgeOutOfRange(0, 1000), ReadPositions::OutOfRange::kRestart);
}

}  // namespace
}  // namespace millrace::kafka_internal
