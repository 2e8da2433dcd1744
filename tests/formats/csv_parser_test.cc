#include "formats/csv_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/formats/csv_text.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using Fields = std::vector<std::string>;

std::vector<Fields> FieldsOf(std::string_view text) {
  std::vector<Fields> all;
  for (const ParsedRecord& record : Parse(text)) {
    EXPECT_EQ(record.error, "");
    all.push_back(record.fields);
  }
  return all;
}

TEST(CsvParser, SplitsRecordsAtLineEndsAndFieldsAtCommas) {
  EXPECT_EQ(FieldsOf("a,b\n1,2\n"), (std::vector<Fields>{{"a", "b"}, {"1", "2"}}));
}

TEST(CsvParser, TakesCrLfAndLfInOneFile) {
  EXPECT_EQ(FieldsOf("a,b\r\n1,2\n\"3\",\"4\"\r\n"),
            (std::vector<Fields>{{"a", "b"}, {"1", "2"}, {"3", "4"}}));
}

TEST(CsvParser, TakesALastLineWithoutALineEnd) {
  EXPECT_EQ(FieldsOf("a\nb"), (std::vector<Fields>{{"a"}, {"b"}}));
  EXPECT_EQ(FieldsOf("a\n\"b\""), (std::vector<Fields>{{"a"}, {"b"}}));
  EXPECT_EQ(FieldsOf("a\nb\r"), (std::vector<Fields>{{"a"}, {"b"}}));
  EXPECT_EQ(FieldsOf("a\n\"b\"\r"), (std::vector<Fields>{{"a"}, {"b"}}));
}

TEST(CsvParser, KeepsEmptyFields) {
  EXPECT_EQ(FieldsOf(",\n,,x\n\"\",\n1,"),
            (std::vector<Fields>{{"", ""}, {"", "", "x"}, {"", ""}, {"1", ""}}));
}

TEST(CsvParser, KeepsACommaInsideQuotes) {
  EXPECT_EQ(FieldsOf("\"a,b\",c\n"), (std::vector<Fields>{{"a,b", "c"}}));
}

TEST(CsvParser, KeepsANewlineInsideQuotes) {
  EXPECT_EQ(FieldsOf("\"a\nb\r\n\r\nc\",d\n"), (std::vector<Fields>{{"a\nb\r\n\r\nc", "d"}}));
}

TEST(CsvParser, ReadsADoubledQuoteAsOne) {
  EXPECT_EQ(FieldsOf("\"\"\"\",\"a\"\"b\",\"\"\"x\"\"\",\"\"\"\"\"\"\n"),
            (std::vector<Fields>{{"\"", "a\"b", "\"x\"", "\"\""}}));
}

TEST(CsvParser, TakesAQuoteInsideAnUnquotedFieldAsData) {
  EXPECT_EQ(FieldsOf("5\" pipe,a\"\"b,x\"\n \"a\",b\n"),
            (std::vector<Fields>{{"5\" pipe", "a\"\"b", "x\""}, {" \"a\"", "b"}}));
}

TEST(CsvParser, KeepsSpaces) {
  EXPECT_EQ(FieldsOf(" a , b\t\n"), (std::vector<Fields>{{" a ", " b\t"}}));
}

TEST(CsvParser, TakesACarriageReturnInsideALineAsData) {
  EXPECT_EQ(FieldsOf("a\rb,c\r\r\n"), (std::vector<Fields>{{"a\rb", "c\r"}}));
}

TEST(CsvParser, SkipsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(FieldsOf("\xEF\xBB\xBF\"a,b\"\n\xEF\xBB\xBFx\n"),
            (std::vector<Fields>{{"a,b"}, {"\xEF\xBB\xBFx"}}));
  EXPECT_EQ(FieldsOf("\xEF\xBB"), (std::vector<Fields>{{"\xEF\xBB"}}));
  EXPECT_EQ(FieldsOf("\xEF\xBB\xBF"), (std::vector<Fields>{}));
}

TEST(CsvParser, SkipsEmptyLinesButCountsThem) {
  const std::vector<ParsedRecord> records = Parse("\n\r\na\n\n\"\"\n\r\n\n");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].fields, Fields{"a"});
  EXPECT_EQ(records[0].line, 3u);
  EXPECT_EQ(records[1].fields, Fields{""});
  EXPECT_EQ(records[1].line, 5u);
}

TEST(CsvParser, GivesNothingForNoInput) {
  EXPECT_TRUE(Parse("").empty());
  EXPECT_TRUE(Parse("\n\r\n\r").empty());
}

TEST(CsvParser, KnowsLineOffsetAndTextOfEachRecord) {
  const std::vector<ParsedRecord> records = Parse("\xEF\xBB\xBFh\r\n\"a\n\"\"b\",c\r\nlast");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].line, 1u);
  EXPECT_EQ(records[0].offset, 3u);
  EXPECT_EQ(records[1].line, 2u);
  EXPECT_EQ(records[1].offset, 6u);
  EXPECT_EQ(records[1].raw, "\"a\n\"\"b\",c");
  EXPECT_EQ(records[2].line, 4u);
  EXPECT_EQ(records[2].offset, 17u);
  EXPECT_EQ(records[2].raw, "last");
}

TEST(CsvParser, CountsConsumedBytesUpToTheNextRecord) {
  CsvParser parser;
  CsvRecord record;
  parser.Feed("ab,c\nd\nrest");
  ASSERT_EQ(parser.Next(&record), CsvParser::Event::kRecord);
  EXPECT_EQ(parser.consumed(), 5u);
  ASSERT_EQ(parser.Next(&record), CsvParser::Event::kRecord);
  EXPECT_EQ(parser.consumed(), 7u);
  EXPECT_EQ(parser.Next(&record), CsvParser::Event::kNeedInput);
  parser.Finish();
  ASSERT_EQ(parser.Next(&record), CsvParser::Event::kRecord);
  EXPECT_EQ(parser.consumed(), 11u);
  EXPECT_EQ(parser.Next(&record), CsvParser::Event::kEnd);
  EXPECT_EQ(parser.Next(&record), CsvParser::Event::kEnd);
}

TEST(CsvParser, RefusesTextAfterAClosingQuoteAndGoesOnWithTheNextLine) {
  const std::vector<ParsedRecord> records = Parse("h,i\n1,\"a\"b,c\n2,x\n\"3\" ,y\r\n4,z\n");
  ASSERT_EQ(records.size(), 5u);
  EXPECT_THAT(records[1].error, HasSubstr("text after the closing quote of field 2"));
  EXPECT_EQ(records[1].line, 2u);
  EXPECT_EQ(records[1].raw, "1,\"a\"b,c");
  EXPECT_TRUE(records[1].fields.empty());
  EXPECT_EQ(records[2].fields, (Fields{"2", "x"}));
  EXPECT_EQ(records[2].line, 3u);
  EXPECT_THAT(records[3].error, HasSubstr("text after the closing quote of field 1"));
  EXPECT_EQ(records[3].raw, "\"3\" ,y");
  EXPECT_EQ(records[4].fields, (Fields{"4", "z"}));
}

TEST(CsvParser, RefusesTextAfterAClosingQuoteAtTheEnd) {
  for (const char* text : {"\"a\"b", "\"a\"\rb", "\"a\"\r\r"}) {
    const std::vector<ParsedRecord> records = Parse(text);
    ASSERT_EQ(records.size(), 1u) << text;
    EXPECT_THAT(records[0].error, HasSubstr("text after the closing quote")) << text;
  }
}

TEST(CsvParser, AQuoteThatIsNeverClosedCostsOneLine) {
  const std::vector<ParsedRecord> records = Parse("1,a\n2,\"b\n3,c\n4,d\"\"\n5,e");
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[1].error, "field 2 opens a quote that is never closed");
  EXPECT_EQ(records[1].line, 2u);
  EXPECT_EQ(records[1].raw, "2,\"b");
  EXPECT_EQ(records[2].fields, (Fields{"3", "c"}));
  EXPECT_EQ(records[3].fields, (Fields{"4", "d\"\""}));
  EXPECT_EQ(records[4].fields, (Fields{"5", "e"}));
  EXPECT_EQ(records[4].line, 5u);
}

TEST(CsvParser, AStrayQuoteCostsOneLineThoughTheErrorShowsLater) {
  const std::vector<ParsedRecord> records = Parse("1,\"a\n2,b\n3,\"c\"\n4,d\n");
  ASSERT_EQ(records.size(), 4u);
  EXPECT_THAT(records[0].error, HasSubstr("text after the closing quote"));
  EXPECT_EQ(records[0].raw, "1,\"a");
  EXPECT_EQ(records[1].fields, (Fields{"2", "b"}));
  EXPECT_EQ(records[2].fields, (Fields{"3", "c"}));
  EXPECT_EQ(records[3].line, 4u);
}

TEST(CsvParser, TakesRecordsUpToTheLimitAndRefusesLongerOnes) {
  const std::vector<ParsedRecord> records =
      Parse("12345678\n123456789\n\"1\n3\n5\n\"\nx\n", {.max_record_bytes = 8});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].fields, Fields{"12345678"});
  EXPECT_EQ(records[1].error, "longer than 8 bytes");
  EXPECT_EQ(records[1].raw, "12345678");
  EXPECT_EQ(records[2].fields, Fields{"1\n3\n5\n"});
  EXPECT_EQ(records[2].line, 3u);
  EXPECT_EQ(records[3].fields, Fields{"x"});
  EXPECT_EQ(records[3].line, 7u);
}

TEST(CsvParser, RefusesAQuotedFieldBeyondTheLimitAndGoesOnWithItsSecondLine) {
  const std::vector<ParsedRecord> records =
      Parse("\"a\nb\nccccccccc\nd\n", {.max_record_bytes = 8});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].error, "longer than 8 bytes: is the quote that field 1 opens not closed?");
  EXPECT_EQ(records[1].fields, Fields{"b"});
  EXPECT_EQ(records[2].error, "longer than 8 bytes");
  EXPECT_EQ(records[2].line, 3u);
  EXPECT_EQ(records[3].fields, Fields{"d"});
  EXPECT_EQ(records[3].line, 4u);
}

TEST(CsvParser, RefusesARecordWithTooManyFields) {
  const std::vector<ParsedRecord> records =
      Parse("1,2,3\n1,2,3,4\n1,2,\"3\",\"4\"\n1,2,3,4", {.max_fields = 3});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].fields.size(), 3u);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(records[i].error, "more than 3 fields");
}

TEST(CsvParser, KeepsNoMoreThanTheLimitOfAnEndlessLine) {
  const CsvLimits limits = {.max_record_bytes = 1 << 16};
  for (const char* start : {"", "\"", "x,\"y\"z"}) {
    CsvParser parser(limits);
    CsvRecord record;
    size_t errors = 0;
    parser.Feed(start);
    const std::string chunk(1 << 12, 'x');
    for (int i = 0; i < 1000; ++i) {
      while (parser.Next(&record) == CsvParser::Event::kRecord) errors += !record.ok();
      parser.Feed(chunk);
      // The room grows only where the buffer does.
      EXPECT_LE(parser.buffered(), size_t{3} << 16);
    }
    parser.Feed("\nlast\n");
    ASSERT_EQ(parser.Next(&record), CsvParser::Event::kRecord);
    EXPECT_EQ(errors, 1u);
    EXPECT_EQ(record.line, 2u);
    EXPECT_EQ(record.fields[0], "last");
  }
}

}  // namespace
}  // namespace millrace
