#include "predictor/empty_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(const EmptyRows& found, bool at_end = false) {
  return EmptyRowsText("rides", found, std::vector<std::string>{"distance", "temp"}, at_end);
}

TEST(EmptyRowsText, OfAllOfTheFirstTenIsSaidWithWhatThereIsInstead) {
  EXPECT_EQ(Text({.rows = 9, .empty = 9}), "");
  EXPECT_EQ(Text({.rows = 10, .empty = 9}), "");
  EXPECT_EQ(Text({.rows = 10, .empty = 10, .members = {"km", "a\"b"}}),
            "none of the first 10 rows of rides has a value in any of the model's columns "
            "(\"distance\", \"temp\"); the first such row has \"km\", \"a\\\"b\" instead. Check "
            "--input-topic, and whether the topic has these columns under other names. Predictor "
            "goes on, and scores such a row as if every cell were empty");
  EXPECT_THAT(Text({.rows = 10, .empty = 10}), HasSubstr("\"temp\"). Check --input-topic"));
}

TEST(EmptyRowsText, OfFewerIsSaidWhenNoMoreCome) {
  EXPECT_THAT(Text({.rows = 1, .empty = 1}, true),
              HasSubstr("none of the first 1 row of rides has"));
  EXPECT_EQ(Text({.rows = 2, .empty = 1}, true), "");
  EXPECT_EQ(Text({}, true), "");
}

TEST(EmptyRowsText, OfNineInTenIsSaidOfAThousand) {
  EXPECT_EQ(Text({.rows = 999, .empty = 998}), "");
  EXPECT_EQ(Text({.rows = 1000, .empty = 899}), "");
  EXPECT_THAT(
      Text({.rows = 1000, .empty = 900}),
      HasSubstr("900 of the first 1,000 rows of rides have no value in any of the model's"));
}

TEST(EmptyRowsText, OfManyColumnsNamesSome) {
  std::vector<std::string> columns;
  for (int i = 0; i < 11; ++i) columns.push_back(std::to_string(i));
  EXPECT_THAT(EmptyRowsText("rides", {.rows = 10, .empty = 10}, columns, false),
              HasSubstr("\"8\", \"9\" and more)"));
}

TEST(MemberNames, AreThoseThatColumnsWouldHave) {
  EXPECT_THAT(MemberNames(R"({"b": {"y": 1, "x": {"z": []}}, "a": {}, "c": null})"),
              ElementsAre("a", "b.x.z", "b.y", "c"));
  for (const char* text : {"", "{", "[]", "3"}) EXPECT_THAT(MemberNames(text), IsEmpty());
}

TEST(MemberNames, OfDeepObjectsAreCut) {
  std::string deep = "{}";
  for (int i = 0; i < 20; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_THAT(MemberNames(deep), ElementsAre("a.a.a.a.a.a.a.a"));
}

}  // namespace
}  // namespace millrace
