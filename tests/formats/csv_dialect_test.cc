#include "formats/csv_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/formats/csv_text.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

char Found(std::string_view text) {
  DelimiterFinder finder;
  finder.Feed(text);
  return finder.delimiter();
}

TEST(CsvDialect, TheCandidateThatTheHeaderHasMostOftenIsTheDelimiter) {
  EXPECT_EQ(Found("a,b,c\n1;2;3;4;5\n"), ',');
  EXPECT_EQ(Found("a;b,c;d\n1,5;2;3\n"), ';');
  EXPECT_EQ(Found("a\tb\tc, or d\n"), '\t');
  EXPECT_EQ(Found("a|b\n"), '|');
}

TEST(CsvDialect, ATieOrNoCandidateMeansCommas) {
  EXPECT_EQ(Found("a;b,c\n"), ',');
  EXPECT_EQ(Found("a;b|c\n"), ',');
  EXPECT_EQ(Found("alone\n1;2\n"), ',');
  EXPECT_EQ(Found(""), ',');
}

TEST(CsvDialect, WhatIsInQuotesDoesNotCount) {
  EXPECT_EQ(Found("\"a;b;c;d\",e\n"), ',');
  EXPECT_EQ(Found("\"a\"\"b,,\n,,\";e\n,,,,\n"), ';');
  EXPECT_EQ(Found("\xEF\xBB\xBF\"a,b,c\";d\n"), ';');
}

// It is data there, as for the parser.
TEST(CsvDialect, AQuoteInsideAFieldOpensNothing) { EXPECT_EQ(Found("5\" pipe;a;b\n,,,,,\n"), ';'); }

TEST(CsvDialect, TheHeaderIsTheFirstLineThatIsNotEmpty) {
  EXPECT_EQ(Found("\n\r\n\na;b\n,,,,\n"), ';');
}

TEST(CsvDialect, PiecesOfTheFileAreFedUntilTheHeaderIsComplete) {
  DelimiterFinder finder;
  const std::string text = "\xEF\xBB\xBF\"x,y\n\";b\r\n";
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(finder.Feed(text.substr(i, 1)), i + 1 == text.size()) << i;
  }
  EXPECT_TRUE(finder.Feed(",,,,,"));
  EXPECT_EQ(finder.delimiter(), ';');
}

TEST(CsvDialect, AUserNamesADelimiterByItselfOrByAWord) {
  EXPECT_EQ(*ParseDelimiter(";"), ';');
  EXPECT_EQ(*ParseDelimiter("\t"), '\t');
  EXPECT_EQ(*ParseDelimiter("\\t"), '\t');
  EXPECT_EQ(*ParseDelimiter("tab"), '\t');
  EXPECT_EQ(*ParseDelimiter("pipe"), '|');
  EXPECT_EQ(*ParseDelimiter("^"), '^');
  for (const char* text : {"", ";;", "\"", "\n", "\r", "\xE9", "colon"}) {
    const Status status = ParseDelimiter(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("give one ASCII character"));
  }
  EXPECT_EQ(DelimiterName('\t'), "tabs");
  EXPECT_EQ(DelimiterName('^'), "\"^\"");
}

TEST(CsvDialect, TheParserTakesAnyDelimiterAndThenCommasAreData) {
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{1000}}) {
    const std::vector<ParsedRecord> records = ParseByChunks(
        "a;\"b;\"\"c\"\"\";1,5\r\n;;\n", {}, [&] { return chunk; }, ';');
    ASSERT_EQ(records.size(), 2u);
    EXPECT_THAT(records[0].fields, ElementsAre("a", "b;\"c\"", "1,5"));
    EXPECT_THAT(records[1].fields, ElementsAre("", "", ""));
  }
}

}  // namespace
}  // namespace millrace
