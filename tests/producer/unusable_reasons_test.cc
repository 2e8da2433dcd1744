#include "producer/unusable_reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

TEST(UnusableReasons, OfNoneOrFewAreNotSaid) {
  UnusableReasons reasons;
  EXPECT_EQ(reasons.Text("rides", 1000), "");
  for (int i = 0; i < 100; ++i) reasons.Add("malformed JSON");
  EXPECT_EQ(reasons.Text("rides", 1000), "");
}

TEST(UnusableReasons, OfMoreThanOneInTenAreSaidWithTheMostFrequentOne) {
  UnusableReasons reasons;
  for (int i = 0; i < 40; ++i) {
    reasons.Add(absl::StrCat("column \"km\": \"far ", i, "\" is not a number"));
  }
  for (int i = 0; i < 39; ++i) {
    reasons.Add(absl::StrCat("column \"temp\": \"cold ", i, "\" is not a number"));
  }
  for (int i = 0; i < 30; ++i) reasons.Add(absl::StrCat("malformed JSON near byte ", i));
  reasons.Add("no label");
  EXPECT_EQ(reasons.count(), 110);
  EXPECT_EQ(
      reasons.Text("rides", 1000),
      "rides: 110 of the first 1,000 records are no rows; the most frequent reason (40): column "
      "\"km\": \"far 39\" is not a number; check --format, --label and the columns");
}

TEST(UnusableReasons, OfAllAreSaidHoweverFewTheRecordsAre) {
  UnusableReasons reasons;
  reasons.Add("no label");
  EXPECT_EQ(
      reasons.Text("rides", 1),
      "rides: none of the first 1 record is a row; the most frequent reason (1): no label; check "
      "--format, --label and the columns");
}

TEST(UnusableReasons, AreAlikeWhateverTheTextsBeginWith) {
  UnusableReasons reasons;
  for (const char* begin : {"aaa", "bbb", "ccc"}) {
    reasons.Add(absl::StrCat("no JSON; it begins with: ", begin));
  }
  for (int i = 0; i < 2; ++i) reasons.Add("no label");
  EXPECT_THAT(reasons.Text("rides", 5), testing::HasSubstr("(3): no JSON; it begins with: ccc;"));
}

TEST(UnusableReasons, OfManyKindsTakeLittleMemoryAndAreAllCounted) {
  UnusableReasons reasons;
  for (int i = 0; i < 1000; ++i) reasons.Add(std::string(static_cast<size_t>(i), 'x'));
  EXPECT_EQ(reasons.count(), 1000);
  EXPECT_NE(reasons.Text("rides", 1000), "");
}

}  // namespace
}  // namespace millrace
