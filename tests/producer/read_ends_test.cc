#include "producer/read_ends.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

std::vector<Offset> Offsets(Offset first, Offset second) { return {first, second}; }

bool IsAtEnd(const ReadEnds& ends, const std::vector<Offset>& next) {
  return ends.IsAtEnd([&](int32_t partition) { return next[static_cast<size_t>(partition)]; });
}

TEST(ReadEnds, AreReachedWhenAllBeforeThemWasRead) {
  ReadEnds ends;
  ends.Begin(Offsets(Offset(3), Offset(0)));
  EXPECT_TRUE(ends.Counts(0, Offset(2)));
  EXPECT_FALSE(IsAtEnd(ends, Offsets(Offset(2), Offset(0))));
  EXPECT_TRUE(IsAtEnd(ends, Offsets(Offset(3), Offset(0))));
}

TEST(ReadEnds, AreReachedByARecordThatDoesNotCountThoughThereIsAHoleBeforeThem) {
  ReadEnds ends;
  ends.Begin(Offsets(Offset(3), Offset(5)));
  EXPECT_FALSE(ends.Counts(0, Offset(3)));
  EXPECT_FALSE(IsAtEnd(ends, Offsets(Offset(1), Offset(4))));
  EXPECT_FALSE(ends.Counts(1, Offset(9)));
  EXPECT_TRUE(IsAtEnd(ends, Offsets(Offset(1), Offset(4))));
  ends.Begin(Offsets(Offset(3), Offset(5)));
  EXPECT_FALSE(IsAtEnd(ends, Offsets(Offset(1), Offset(4))));
}

TEST(ReadEnds, AreReachedByEachPartitionForItself) {
  ReadEnds ends;
  EXPECT_FALSE(ends.IsAtEnd(0, Offset(9)));
  ends.Begin(Offsets(Offset(3), Offset(5)));
  EXPECT_FALSE(ends.IsAtEnd(0, Offset(2)));
  EXPECT_TRUE(ends.IsAtEnd(0, Offset(3)));
  EXPECT_FALSE(ends.IsAtEnd(1, Offset(3)));
  EXPECT_FALSE(ends.Counts(1, Offset(5)));
  EXPECT_TRUE(ends.IsAtEnd(1, Offset(3)));
  EXPECT_FALSE(ends.IsAtEnd(2, Offset(9)));
}

TEST(ReadEnds, BoundHowFarAPartitionIsRead) {
  ReadEnds ends;
  EXPECT_EQ(ends.Until(1, Offset(9)), Offset(9));
  ends.Begin(Offsets(Offset(3), Offset(5)));
  EXPECT_EQ(ends.Until(1, Offset(9)), Offset(5));
  EXPECT_EQ(ends.Until(1, Offset(4)), Offset(4));
}

TEST(ReadEnds, WithoutThemAllCountsAndThePresentEndIsToldOnce) {
  ReadEnds ends;
  EXPECT_TRUE(ends.Counts(7, Offset(1'000'000)));
  EXPECT_FALSE(IsAtEnd(ends, Offsets(Offset(9), Offset(9))));
  EXPECT_FALSE(ends.NoteEnd(1, 2));
  EXPECT_FALSE(ends.NoteEnd(1, 2));
  EXPECT_TRUE(ends.NoteEnd(0, 2));
  EXPECT_FALSE(ends.NoteEnd(0, 2));
  ends.Begin({});
  EXPECT_FALSE(ends.NoteEnd(0, 2));
  ReadEnds bounded;
  bounded.Begin(Offsets(Offset(3), Offset(5)));
  EXPECT_FALSE(bounded.NoteEnd(0, 1));
}

}  // namespace
}  // namespace millrace
