#include "formats/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<std::string>>;

struct Result {
  Status status;
  bool is_array = false;
  Rows rows;
};

Result Read(JsonFields& fields, std::string_view text) {
  Result result;
  const auto shape = fields.ForEach(text, [&](std::span<const std::string_view> cells) {
    result.rows.emplace_back(cells.begin(), cells.end());
    return absl::OkStatus();
  });
  result.status = shape.status();
  result.is_array = shape.ok() && *shape == JsonFields::Shape::kArray;
  return result;
}

Result Read(std::vector<std::string> names, std::string_view text) {
  JsonFields fields(std::move(names));
  return Read(fields, text);
}

void ExpectError(std::vector<std::string> names, std::string_view text, const std::string& part) {
  const Result result = Read(std::move(names), text);
  EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << text;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr(part)) << text;
}

TEST(JsonFields, OfAnObjectAreTakenByNameWhateverTheirOrder) {
  const Result result = Read({"a", "b"}, R"( {"b": "two", "c": [1, {"a": 9}], "a": "one"} )");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_FALSE(result.is_array);
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("one", "two")));
}

TEST(JsonFields, HoldNumbersDigitForDigitAndWordsAndNothingForNull) {
  const Result result =
      Read({"a", "b", "c", "d", "e", "f"},
           R"({"a": 1.50 , "b":-0, "c":12345678901234567890123, "d":true, "e":false, "f":null})");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("1.50", "-0", "12345678901234567890123", "true",
                                                   "false", "")));
}

TEST(JsonFields, HaveNumbersWithTheDecimalSignOfTheModelsFiles) {
  JsonFields fields({"a", "b"}, ',');
  const Result result = Read(fields, R"({"a": 1.234, "b": "1.234"})");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("1,234", "1.234")));
}

TEST(JsonFields, MayHaveOneMoreWhoseNumbersStandAsTheyCame) {
  std::vector<std::string> seen;
  const auto take = [&](std::span<const std::string_view> fields) {
    seen.assign(fields.begin(), fields.end());
    return absl::OkStatus();
  };
  JsonFields other({"a"}, ',', JsonFields::Absent::kError, "id");
  ASSERT_TRUE(other.ForEach(R"({"id": 7.50, "a": 1.5})", take).ok());
  EXPECT_THAT(seen, ElementsAre("1,5", "7.50"));
  EXPECT_FALSE(other.ForEach(R"({"a": 1.5})", take).ok());
  EXPECT_FALSE(other.ForEach(R"({"id": 1, "a": 1.5, "id": 2})", take).ok());
  JsonFields same({"a", "b"}, ',', JsonFields::Absent::kMarked, "a");
  ASSERT_TRUE(same.ForEach(R"([{"a": 7.50, "b": 1.5}])", take).ok());
  EXPECT_THAT(seen, ElementsAre("7,50", "1,5", "7.50"));
  ASSERT_TRUE(same.ForEach(R"({"b": 1.5})", take).ok());
  EXPECT_THAT(seen, ElementsAre("", "1,5", ""));
}

TEST(JsonFields, HaveTheirEscapesReplaced) {
  const Result result = Read({"a\nb"}, R"({"a\u000ab": "\u00e9\t\"x\" \ud83d\ude00"})");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("\u00e9\t\"x\" \U0001F600")));
}

TEST(JsonFields, OfObjectsInObjectsAreNamedByDottedPaths) {
  const Result result = Read({"a.b.c", "a.d", "e.f"},
                             R"({"a": {"b": {"c": 1, "x": {}}, "d": 2}, "e.f": 3, "b": {"c": 9}})");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("1", "2", "3")));
}

TEST(JsonFields, OfAnArrayComeRowByRow) {
  JsonFields fields({"a"});
  const Result result = Read(fields, R"([{"a": "x\n"}, {"a": 2}])");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(result.is_array);
  EXPECT_THAT(result.rows, ElementsAre(ElementsAre("x\n"), ElementsAre("2")));
  const Result empty = Read(fields, "[]");
  EXPECT_TRUE(empty.status.ok() && empty.is_array && empty.rows.empty());
  EXPECT_THAT(Read(fields, R"({"a": 3})").rows, ElementsAre(ElementsAre("3")));
}

TEST(JsonFields, ThatAreNotThereAreAnErrorThatNamesTheRowAndTheField) {
  ExpectError({"a", "b"}, R"({"a": 1})", "there is no 'b'; if it is not known, give null");
  ExpectError({"a"}, R"([{"a": 1}, {"A": 1}])", "row 2: there is no 'a'");
  ExpectError({"a.b"}, R"({"a": 1})", "there is no 'a.b'");
}

TEST(JsonFields, ThatAreNotThereMayBeMistypedAsOneOfTheOtherMembers) {
  ExpectError({"a", "b.c"}, R"({"B": 1, "a": 2, "b": {"d\n": 3}})",
              "there is no 'b.c'; if it is not known, give null (members that are not read: 'B', "
              "'b.d\\x0a')");
  ExpectError({"x"}, R"({"a":1,"b":1,"c":1,"d":1,"e":1})", "'d', 'e')");
  ExpectError({"x"}, R"({"a":1,"b":1,"c":1,"d":1,"e":1,"f":1})", "'d', 'e' and more)");
  const Result result = Read({"x"}, R"([{"x": 1, "a": 1}, {"b": 1}])");
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("(members that are not read: 'b')"));
}

TEST(JsonFields, ThatAreNotThereAreEmptyCellsIfTheyMayBe) {
  JsonFields fields({"a", "b.c"}, '.', JsonFields::Absent::kEmpty);
  const Result result = Read(fields, R"([{"a": 1, "b": {"c": 2}}, {"a": 3}, {"b": {}}])");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows,
              ElementsAre(ElementsAre("1", "2"), ElementsAre("3", ""), ElementsAre("", "")));
}

TEST(JsonFields, ThatAreNotThereCanBeToldFromEmptyOnes) {
  JsonFields fields({"a", "b", "c"}, '.', JsonFields::Absent::kMarked);
  size_t marked = 0;
  const auto read = fields.ForEach(R"({"a": null, "b": ""})", [&](const auto& cells) {
    for (const std::string_view cell : cells) marked += cell.data() == nullptr ? 1 : 0;
    EXPECT_EQ(cells[2].data(), nullptr);
    EXPECT_EQ(cells[2].size(), 0u);
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(marked, 1u);
}

TEST(JsonFields, ThatAreThereTwiceAreAnError) {
  ExpectError({"a"}, R"({"a": 1, "a": 1})", "'a' is there twice");
  ExpectError({"a.b"}, R"({"a": {"b": 1}, "a.b": 2})", "'a.b' is there twice");
}

TEST(JsonFields, ThatAreNoCellsAreAnError) {
  ExpectError({"a"}, R"({"a": [1]})", "'a' is an array; a cell is");
  ExpectError({"a"}, R"({"a": {"b": 1}})", "'a' is an object; a cell is");
}

TEST(JsonFields, OfWhatIsNoObjectAreAnError) {
  for (const char* text : {"3", "\"x\"", "null", "true"}) {
    ExpectError({"a"}, text, "neither an object nor an array of objects");
  }
  ExpectError({"a"}, R"([{"a": 1}, 3])", "row 2 is no object");
  ExpectError({"a"}, R"([[]])", "row 1 is no object");
}

TEST(JsonFields, OfMalformedJsonAreAnError) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "{\"a\"",
                           "{\"a\":}",
                           "{\"a\":1",
                           "[{\"a\":1},]",
                           "{\"a\":1,}",
                           "{'a':1}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":tru}",
                           "{\"a\":nul}",
                           "{\"a\":1x}",
                           "{\"a\":\"\xff\"}",
                           "{\"a\":\"\\ud800\"}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":NaN}",
                           "[{\"a\":1}"}) {
    ExpectError({"a"}, text, "malformed JSON");
  }
}

TEST(JsonFields, OfATextThatCannotBeReadAreAnErrorThatShowsItsBeginning) {
  ExpectError({"a"}, "<html>\n", "; it begins with: <html>\\x0a");
  ExpectError({"a"}, "{\"a\": 1, \"b\": 2, \"c\": 3, \"secret\": 4",
              "; it begins with: {\"a\": 1, \"b\": 2, \"c\": 3, \"secr..");
  ExpectError({"a"}, "", "; it is empty");
  ExpectError({"a"}, "3", "a row is an object; it begins with: 3");
  ExpectError({"a"}, "{\"a\":1}\n{\"a\":2}", "or NDJSON; it begins with: {\"a\":1}\\x0a{");
}

TEST(JsonFields, BehindTheEndOfTheJsonAreAnError) {
  ExpectError({"a"}, "{\"a\":1}\n{\"a\":2}", "more behind the end");
}

TEST(JsonFields, AreRefusedWithTheNumberOfTheRow) {
  JsonFields fields({"a"});
  const auto refuse = [](std::span<const std::string_view> cells) {
    return cells[0] == "2" ? absl::InvalidArgumentError("no") : absl::OkStatus();
  };
  const auto result = fields.ForEach(R"([{"a": 1}, {"a": 2}, {"a": 1}])", refuse);
  EXPECT_EQ(result.status().message(), "row 2: no");
  EXPECT_EQ(fields.ForEach(R"({"a": 2})", refuse).status().message(), "no");
}

}  // namespace
}  // namespace millrace
