#include "producer/tail_ends.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

using News = TailEnds::News;

TailEnds::News Take(TailEnds& ends, Offset first, Offset second) {
  return ends.Take(std::vector<OffsetRange>{{0, first}, {0, second}});
}

TEST(TailEnds, AreStillWhenTheSameIsToldAgain) {
  TailEnds ends(2);
  EXPECT_EQ(Take(ends, 0, 0), News::kNone) << "empty partitions";
  EXPECT_EQ(Take(ends, 3, 5), News::kFurther);
  EXPECT_EQ(Take(ends, 3, 5), News::kNone);
  EXPECT_EQ(Take(ends, 3, 6), News::kFurther);
  EXPECT_EQ(ends.known(1), 6);
}

TEST(TailEnds, NeverGoBack) {
  TailEnds ends(2);
  Take(ends, 3, 5);
  EXPECT_EQ(Take(ends, 3, 4), News::kBack);
  EXPECT_EQ(ends.known(1), 5);
  ASSERT_TRUE(ends.went_back());
  EXPECT_EQ(ends.went_back()->partition, 1u);
  EXPECT_EQ(ends.went_back()->told, 4);
  EXPECT_EQ(Take(ends, 3, 5), News::kNone);
  EXPECT_FALSE(ends.went_back());
}

TEST(TailEnds, AreNotBehindWhatWasRead) {
  TailEnds ends(2);
  Take(ends, 3, 5);
  ends.NoteRead(0, 4);
  ends.NoteRead(1, 2);
  EXPECT_EQ(Take(ends, 3, 5), News::kBack);
  EXPECT_EQ(Take(ends, 4, 5), News::kNone);
}

TEST(TailEnds, OnePartitionThatIsFurtherDoesNotHideOneThatWentBack) {
  TailEnds ends(2);
  Take(ends, 3, 5);
  EXPECT_EQ(Take(ends, 4, 1), News::kBack);
  EXPECT_EQ(ends.known(0), 4);
  EXPECT_EQ(Take(ends, 1, 9), News::kBack);
  EXPECT_EQ(ends.known(1), 9);
}

}  // namespace
}  // namespace millrace
