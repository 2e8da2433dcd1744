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

TEST(DeadLetter, IsOneRecordWhateverAnotherProgramHasPutIntoIt) {
  DeadLetter letter;
  letter.set_topic(std::string(kMaxFrameBytes, 't'));
  // Two bytes a character, so that one would be cut in two.
  for (size_t i = 0; i < kMaxFrameBytes; ++i) letter.mutable_reason()->append("\xC3\xA4");
  letter.mutable_reason()->insert(0, "r");
  letter.set_key(std::string(kMaxFrameBytes, 'k'));
  letter.set_value(std::string(kMaxFrameBytes, 'v'));
  CutToOneRecord(letter);
  const std::string bytes = letter.SerializeAsString();
  EXPECT_EQ(MakeFrames(bytes, 0).size(), 1u);
  DeadLetter read;
  EXPECT_TRUE(read.ParseFromString(bytes)) << "no half of a character is left";
  EXPECT_TRUE(read.reason().starts_with("r\xC3\xA4"));
}

TEST(DeadLetter, IsOneRecordThoughItsReasonIsLongAndAllThatIsWanted) {
  const DeadLetter letter = MakeDeadLetter(ARecord(""), std::string(kMaxFrameBytes, 'r'), true);
  EXPECT_EQ(MakeFrames(letter.SerializeAsString(), 0).size(), 1u);
}

TEST(DeadLetter, HoldsNothingOfTheRecordWhenOnlyTheReasonIsWanted) {
  const DeadLetter letter = MakeDeadLetter(ARecord("the value"), "no row", true);
  EXPECT_EQ(letter.reason(), "no row");
  EXPECT_EQ(letter.offset(), 7);
  EXPECT_EQ(letter.key() + letter.value(), "");
}

}  // namespace
}  // namespace millrace
