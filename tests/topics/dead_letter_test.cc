#include "topics/dead_letter.h"

#include <gtest/gtest.h>

#include <string>

#include "topics/frame.h"

namespace millrace {
namespace {

UnusableRecord ARecord(const std::string& value) {
  return {.topic = "input-data", .partition = 2, .offset = 7, .key = "the key", .value = value};
}

TEST(DeadLetter, HoldsTheRecordWithItsPlaceAndTheReason) {
  const DeadLetter letter = MakeDeadLetter(ARecord("the value"), "no row", false);
  EXPECT_EQ(letter.topic(), "input-data");
  EXPECT_EQ(letter.partition(), 2);
  EXPECT_EQ(letter.offset(), 7);
  EXPECT_EQ(letter.reason(), "no row");
  EXPECT_EQ(letter.key(), "the key");
  EXPECT_EQ(letter.value(), "the value");
}

TEST(DeadLetter, IsOneRecordWhateverItHolds) {
  const DeadLetter letter = MakeDeadLetter(ARecord(std::string(kMaxFrameBytes, 'x')), "", false);
  EXPECT_EQ(letter.value(), std::string(kMaxFrameBytes / 3, 'x'));
}

TEST(DeadLetter, HoldsNothingOfTheRecordWhenOnlyTheReasonIsWanted) {
  const DeadLetter letter = MakeDeadLetter(ARecord("the value"), "no row", true);
  EXPECT_EQ(letter.reason(), "no row");
  EXPECT_EQ(letter.offset(), 7);
  EXPECT_EQ(letter.key() + letter.value(), "");
}

}  // namespace
}  // namespace millrace
