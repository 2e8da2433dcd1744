#include "kafka/read_positions.h"

#include <gtest/gtest.h>

namespace millrace::kafka_internal {
namespace {

using Verdict = ReadPositions::Verdict;

TEST(ReadPositions, RecordsOfPartitionsThatAreNotReadAreDropped) {
  ReadPositions positions;
  EXPECT_EQ(positions.JudgeRecord(0, 5), Verdict::kDrop);
  positions.Start(0, 5);
  EXPECT_EQ(positions.JudgeRecord(0, 5), Verdict::kAccept);
  positions.Stop(0);
  EXPECT_EQ(positions.JudgeRecord(0, 6), Verdict::kDrop);
  EXPECT_EQ(positions.JudgeEnd(0, 7), Verdict::kDrop);
}

TEST(ReadPositions, ARecordBeforeThePositionIsDroppedAndAGapIsNot) {
  ReadPositions positions;
  positions.Start(0, 5);
  EXPECT_EQ(positions.JudgeRecord(0, 4), Verdict::kDrop);
  EXPECT_EQ(positions.JudgeRecord(0, 9), Verdict::kAccept);
  EXPECT_EQ(positions.JudgeRecord(0, 9), Verdict::kDrop);
}

TEST(ReadPositions, AnEndMovesThePositionOverRecordsThatAreNeverHandedOut) {
  ReadPositions positions;
  positions.Start(0, 5);
  EXPECT_EQ(positions.JudgeEnd(0, 8), Verdict::kAccept);
  EXPECT_EQ(positions.JudgeEnd(0, 7), Verdict::kDrop);
  EXPECT_EQ(positions.JudgeOutOfRange(0, 8), ReadPositions::OutOfRange::kReport);
}

TEST(ReadPositions, AGapAfterARebalanceIsReadAgainOnce) {
  for (const bool at_end : {false, true}) {
    SCOPED_TRACE(at_end ? "before the end" : "before a record");
    ReadPositions positions;
    positions.Start(0, 5);
    const auto judge = [&](Offset offset) {
      return at_end ? positions.JudgeEnd(0, offset) : positions.JudgeRecord(0, offset);
    };
    EXPECT_EQ(judge(5), Verdict::kAccept);
    const Offset expected = positions.all().at(0);
    positions.Rebalanced();
    EXPECT_EQ(judge(8), Verdict::kRestart);
    EXPECT_EQ(judge(9), Verdict::kDrop) << "it comes again";
    EXPECT_EQ(positions.all().at(0), expected);
    positions.Start(0, expected);
    EXPECT_EQ(positions.JudgeRecord(0, expected), Verdict::kAccept) << "one that was lost";
  }
}

TEST(ReadPositions, AGapThatWasAlwaysThereIsPassedInTheEnd) {
  ReadPositions positions;
  positions.Start(0, 5);
  positions.Rebalanced();
  int restarts = 0;
  while (positions.JudgeRecord(0, 8) == Verdict::kRestart) {
    ASSERT_LT(++restarts, 10);
    positions.Start(0, 5);
  }
  EXPECT_EQ(positions.all().at(0), 9);
  EXPECT_EQ(positions.JudgeRecord(0, 20), Verdict::kAccept) << "until the next rebalance";
}

TEST(ReadPositions, APartitionThatIsGivenAnewHasLostNothing) {
  ReadPositions positions;
  positions.Start(0, 5);
  positions.Rebalanced();
  positions.Stop(0);
  positions.Start(0, 5);
  EXPECT_EQ(positions.JudgeRecord(0, 8), Verdict::kAccept);
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
