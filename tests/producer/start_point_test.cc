#include "producer/start_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using Kind = StartPoint::Kind;

const std::vector<OffsetRange> kRanges = {{.begin = 10, .end = 20}, {.begin = 5, .end = 5}};

std::vector<int64_t> Firsts(Kind kind, const std::vector<Offset>& at_time) {
  const std::vector<Offset> offsets = FirstOffsets(kind, kRanges, at_time);
  return {offsets.begin(), offsets.end()};
}

TEST(StartPoint, IsTheFirstRecordOrTheEndOfEachPartition) {
  EXPECT_THAT(Firsts(Kind::kBeginning, {-1, -1}), ElementsAre(10, 5));
  EXPECT_THAT(Firsts(Kind::kNow, {-1, -1}), ElementsAre(20, 5));
}

TEST(StartPoint, OfATimeIsItsFirstRecordThatIsThereOrTheEnd) {
  EXPECT_THAT(Firsts(Kind::kTime, {15, -1}), ElementsAre(15, 5));
  EXPECT_THAT(Firsts(Kind::kTime, {-1, 3}), ElementsAre(20, 5));
  EXPECT_THAT(Firsts(Kind::kTime, {3, -1}), ElementsAre(10, 5));
}

TEST(StartPoint, IsNoTimeBefore1970WhichKafkaTakesForItsEndOrBeginning) {
  for (const char* text : {"-0.001", "-0.002", "1969-12-31T23:59:59.999Z"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseStartPoint(text).status())) << text;
  }
  EXPECT_EQ(ParseStartPoint("0")->time_ms, 0);
}

TEST(StartPoint, OfATimeIsNeverBehindTheCommittedRecords) {
  EXPECT_THAT(Firsts(Kind::kTime, {21, 6}), ElementsAre(20, 5));
}

}  // namespace
}  // namespace millrace
