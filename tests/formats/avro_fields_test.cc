#include "formats/avro_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/formats/avro_bytes.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Cells = std::vector<std::string>;

AvroSchema SchemaOf(const std::string& json) {
  StatusOr<AvroSchema> schema = AvroSchema::Parse(json);
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

// A record of these fields: "name": type, ...
AvroSchema RecordOf(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string json;
  for (const auto& [name, type] : fields) {
    json += (json.empty() ? "" : ", ") + (R"({"name": ")" + name + R"(", "type": )" + type + "}");
  }
  return SchemaOf(R"({"type": "record", "name": "Row", "fields": [)" + json + "]}");
}

// The cells, or the reason why there are none.
Cells Read(AvroFields& fields, const AvroSchema& schema, std::string_view value) {
  Cells found;
  const Status read = fields.Read(schema, value, [&](std::span<const std::string_view> cells) {
    found.assign(cells.begin(), cells.end());
    return absl::OkStatus();
  });
  if (read.ok()) return found;
  EXPECT_TRUE(absl::IsInvalidArgument(read)) << read;
  return {std::string(read.message())};
}

Cells Read(std::vector<std::string> names, const AvroSchema& schema, std::string_view value) {
  AvroFields fields(std::move(names));
  return Read(fields, schema, value);
}

// The cell of a record whose only field has this type.
std::string CellOf(const std::string& type, std::string_view bytes, char decimal_sign = '.') {
  AvroFields fields({"f"}, decimal_sign);
  return Read(fields, RecordOf({{"f", type}}), bytes).at(0);
}

// The example of the specification: {"a": 27, "b": "foo"} is 36 06 66 6f 6f.
TEST(AvroFields, AreReadAsTheSpecificationsExample) {
  const AvroSchema schema = RecordOf({{"a", R"("long")"}, {"b", R"("string")"}});
  EXPECT_THAT(Read({"b", "a"}, schema, "\x36\x06\x66\x6f\x6f"), ElementsAre("foo", "27"));
}

TEST(AvroFields, OfEachTypeAreWrittenAsInATable) {
  EXPECT_EQ(CellOf(R"("boolean")", "\x01"), "true");
  EXPECT_EQ(CellOf(R"("boolean")", std::string(1, '\0')), "false");
  for (const int64_t value :
       {int64_t{0}, int64_t{-1}, int64_t{63}, int64_t{-65}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(CellOf(R"("long")", AvroLong(value)), std::to_string(value));
  }
  EXPECT_EQ(CellOf(R"("int")", AvroLong(-2147483648)), "-2147483648");
  EXPECT_EQ(CellOf(R"("float")", AvroFloat(0.1F)), "0.1");
  EXPECT_EQ(CellOf(R"("double")", AvroFloat(0.1)), "0.1");
  EXPECT_EQ(CellOf(R"("double")", AvroFloat(-1e300)), "-1e+300");
  EXPECT_EQ(CellOf(R"("double")", AvroFloat(-std::numeric_limits<double>::quiet_NaN())), "nan");
  EXPECT_EQ(CellOf(R"("float")", AvroFloat(-std::numeric_limits<float>::infinity())), "-inf");
  EXPECT_EQ(CellOf(R"("string")", AvroText("Größe")), "Größe");
  const std::string symbols = R"({"type": "enum", "name": "E", "symbols": ["NO", "YES"]})";
  EXPECT_EQ(CellOf(symbols, AvroLong(1)), "YES");
  EXPECT_EQ(CellOf(R"(["null", "string"])", AvroLong(0)), "");
  EXPECT_EQ(CellOf(R"(["null", "string"])", AvroLong(1) + AvroText("x")), "x");
  EXPECT_EQ(CellOf(R"("null")", ""), "");
}

TEST(AvroFields, HaveNumbersWithTheDecimalSignOfTheJob) {
  EXPECT_EQ(CellOf(R"("double")", AvroFloat(1.5), ','), "1,5");
  const std::string decimal =
      R"({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1})";
  EXPECT_EQ(CellOf(decimal, AvroText("\x0F"), ','), "1,5");
}

std::string Time(const std::string& type, const std::string& logical, int64_t value) {
  const std::string json = R"({"type": ")" + type + R"(", "logicalType": ")" + logical + R"("})";
  return CellOf(json, AvroLong(value));
}

TEST(AvroFields, ThatAreTimesAreWrittenAsIso8601) {
  EXPECT_EQ(Time("int", "date", 15'736), "2013-01-31");
  EXPECT_EQ(Time("int", "date", -1), "1969-12-31");
  EXPECT_EQ(Time("int", "date", -719'528), "0000-01-01");
  EXPECT_EQ(Time("int", "date", 2'932'896), "9999-12-31");
  EXPECT_EQ(Time("long", "timestamp-millis", 1'359'626'400'000), "2013-01-31T10:00:00Z");
  EXPECT_EQ(Time("long", "timestamp-millis", 1'359'626'400'007), "2013-01-31T10:00:00.007Z");
  EXPECT_EQ(Time("long", "timestamp-micros", -1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(Time("long", "timestamp-nanos", 1'000'000'001), "1970-01-01T00:00:01.000000001Z");
  EXPECT_EQ(Time("long", "local-timestamp-millis", 61'500), "1970-01-01T00:01:01.500");
  EXPECT_EQ(Time("int", "time-millis", 61'500), "61500");
  for (const int64_t day : {int64_t{-719'529}, int64_t{2'932'897}}) {
    EXPECT_THAT(Time("int", "date", day), HasSubstr("before the year 0 or after 9999"));
    EXPECT_THAT(Time("long", "timestamp-millis", day * 86'400'000), HasSubstr("before the year"));
  }
}

TEST(AvroFields, OfTheLowestAndTheHighestNumberAreTimesToo) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Time("long", "timestamp-nanos", kLowest), "1677-09-21T00:12:43.145224192Z");
  EXPECT_EQ(Time("long", "timestamp-nanos", kHighest), "2262-04-11T23:47:16.854775807Z");
  EXPECT_THAT(Time("long", "timestamp-millis", kLowest), HasSubstr("before the year"));
  EXPECT_THAT(Time("long", "timestamp-micros", kHighest), HasSubstr("after 9999"));
}

std::string Decimal(std::string_view bytes, int scale) {
  return CellOf(R"({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": )" +
                    std::to_string(scale) + "}",
                AvroText(bytes));
}

TEST(AvroFields, ThatAreDecimalsAreTheirDigits) {
  EXPECT_EQ(Decimal({"\x00", 1}, 0), "0");
  EXPECT_EQ(Decimal({"\x00", 1}, 2), "0.00");
  EXPECT_EQ(Decimal("\x7B", 0), "123");
  EXPECT_EQ(Decimal("\x7B", 2), "1.23");
  EXPECT_EQ(Decimal("\x7B", 5), "0.00123");
  EXPECT_EQ(Decimal("\xFF", 1), "-0.1");
  EXPECT_EQ(Decimal("\x80", 0), "-128");
  EXPECT_EQ(Decimal({"\xFF\x00", 2}, 0), "-256");
  EXPECT_EQ(Decimal("\x01" + std::string(16, '\0'), 0), "340282366920938463463374607431768211456");
  EXPECT_EQ(CellOf(R"({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal",
                       "precision": 4, "scale": 2})",
                   std::string_view("\x01\x00", 2)),
            "2.56");
  EXPECT_THAT(Decimal("", 0), HasSubstr("a decimal of 0 bytes; 1 to 32 are read"));
  EXPECT_THAT(Decimal(std::string(33, '\0'), 0), HasSubstr("a decimal of 33 bytes"));
}

TEST(AvroFields, OfRecordsAndMapsInTheRecordAreNamedByDottedPaths) {
  const AvroSchema schema = RecordOf({
      {"a", R"(["null", {"type": "record", "name": "A", "fields": [
                 {"name": "b", "type": {"type": "map", "values": "int"}},
                 {"name": "c", "type": "string"}]}])"},
      {"d", R"("int")"},
  });
  // Two blocks: of one entry; of two entries with their bytes' count.
  const std::string second = AvroText("y") + AvroLong(2) + AvroText("p.q") + AvroLong(3);
  const std::string map = AvroLong(1) + AvroText("x") + AvroLong(1) + AvroLong(-2) +
                          AvroLong(static_cast<int64_t>(second.size())) + second + AvroLong(0);
  const std::string value = AvroLong(1) + map + AvroText("text") + AvroLong(4);
  EXPECT_THAT(Read({"d", "a.b.p.q", "a.c", "a.b.x", "a.b.none", "e.f"}, schema, value),
              ElementsAre("4", "3", "text", "1", "", ""));
  EXPECT_THAT(Read({"d", "a.c"}, schema, value), ElementsAre("4", "text"));
  EXPECT_THAT(Read({"a.c", "d"}, schema, AvroLong(0) + AvroLong(7)), ElementsAre("", "7"));
  EXPECT_THAT(Read({"d.x", "d"}, schema, value), ElementsAre("", "4"));
  EXPECT_THAT(Read({"d.x"}, schema, value), ElementsAre(""));
}

TEST(AvroFields, OfAnotherSchemaFollow) {
  AvroFields fields({"a", "b"});
  EXPECT_THAT(Read(fields, RecordOf({{"a", R"("int")"}, {"b", R"("int")"}}), "\x02\x04"),
              ElementsAre("1", "2"));
  EXPECT_THAT(Read(fields, RecordOf({{"c", R"("int")"}, {"b", R"("int")"}}), "\x02\x04"),
              ElementsAre("", "2"));
  EXPECT_THAT(Read(fields, SchemaOf(R"({"type": "map", "values": "boolean"})"),
                   AvroLong(1) + AvroText("a") + "\x01" + AvroLong(0)),
              ElementsAre("true", ""));
}

TEST(AvroFields, PassOverWhatIsNotAskedFor) {
  const AvroSchema schema = RecordOf({
      {"1", R"({"type": "array", "items": {"type": "array", "items": "string"}})"},
      {"2", R"({"type": "fixed", "name": "F", "size": 3})"},
      {"3", R"({"type": "map", "values": ["null", "double"]})"},
      {"4", R"({"type": "enum", "name": "E", "symbols": ["A"]})"},
      {"5", R"("bytes")"},
      {"6", R"("float")"},
      {"7", R"(["null", "Row"])"},
      {"8", R"("null")"},
      {"end", R"("boolean")"},
  });
  const std::string items = AvroLong(2) + AvroText("x") + AvroText("yz") + AvroLong(0);
  const std::string counted = AvroText("k");  // 2 bytes
  const std::string rest = "abc" + AvroLong(1) + AvroText("k") + AvroLong(1) + AvroFloat(1.0) +
                           AvroLong(0) + AvroLong(0) + AvroText("bytes") + AvroFloat(1.F);
  const std::string inner = AvroLong(0) + rest + AvroLong(0) + std::string(1, '\0');
  const std::string value = AvroLong(1) + items + AvroLong(-1) + AvroLong(4) + AvroLong(1) +
                            counted + AvroLong(0) + AvroLong(0) + rest + AvroLong(1) + inner +
                            "\x01";
  EXPECT_THAT(Read({"end"}, schema, value), ElementsAre("true"));
  // Whatever is cut off is missed.
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_THAT(Read({"end"}, schema, value.substr(0, size)),
                ElementsAre(HasSubstr("malformed Avro")));
  }
  EXPECT_THAT(Read({"end"}, schema, value + "x"), ElementsAre(HasSubstr("more bytes than")));
}

TEST(AvroFields, WhoseValuesAreNoCellsAreAnErrorThatNamesThem) {
  EXPECT_THAT(CellOf(R"({"type": "array", "items": "int"})", AvroLong(0)),
              HasSubstr("'f' is of the type array; a cell is"));
  EXPECT_THAT(CellOf(R"({"type": "map", "values": "int"})", AvroLong(0)), HasSubstr("map"));
  EXPECT_THAT(CellOf(R"("bytes")", AvroText("x")), HasSubstr("'f' is of the type bytes"));
  EXPECT_THAT(CellOf(R"({"type": "fixed", "name": "F", "size": 1})", "x"), HasSubstr("fixed"));
  EXPECT_THAT(CellOf(R"("string")", AvroText("\xFF")), HasSubstr("'f' is not valid UTF-8"));
  const std::string twice = AvroLong(2) + AvroText("f") + "\x01" + AvroText("f") + "\x01";
  EXPECT_THAT(Read({"f"}, SchemaOf(R"({"type": "map", "values": "boolean"})"), twice),
              ElementsAre("'f' is there twice"));
}

TEST(AvroFields, OfMalformedBytesAreAnErrorThatNamesTheByte) {
  EXPECT_EQ(CellOf(R"("string")", AvroLong(-1)), "malformed Avro at byte 1: a negative length");
  EXPECT_THAT(CellOf(R"("string")", AvroLong(std::numeric_limits<int64_t>::max())),
              HasSubstr("ends within a value"));
  EXPECT_THAT(CellOf(R"("boolean")", "\x02"), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(CellOf(R"("int")", AvroLong(int64_t{1} << 31)), HasSubstr("more than 32 bits"));
  EXPECT_THAT(CellOf(R"("long")", std::string(9, '\xFF') + "\x02"), HasSubstr("64 bits"));
  EXPECT_THAT(CellOf(R"("long")", std::string(11, '\xFF')), HasSubstr("64 bits"));
  EXPECT_EQ(CellOf(R"("long")", std::string(9, '\xFF') + "\x01"), "-9223372036854775808");
  const std::string symbols = R"({"type": "enum", "name": "E", "symbols": ["NO", "YES"]})";
  EXPECT_THAT(CellOf(symbols, AvroLong(2)), HasSubstr("none of its schema"));
  EXPECT_THAT(CellOf(R"(["null", "int"])", AvroLong(-1)), HasSubstr("none of its schema"));
}

// What takes no byte is not counted, so what is counted ends with the bytes.
TEST(AvroFields, OfABlockOfMoreItemsThanBytesAreAnError) {
  const AvroSchema schema =
      RecordOf({{"a", R"({"type": "array", "items": "int"})"}, {"b", R"("int")"}});
  EXPECT_THAT(Read({"b"}, schema, AvroLong(int64_t{1} << 62)),
              ElementsAre(HasSubstr("more items than bytes")));
  EXPECT_THAT(Read({"b"}, schema, AvroLong(std::numeric_limits<int64_t>::min()) + AvroLong(1)),
              ElementsAre(HasSubstr("a negative length")));
  EXPECT_THAT(Read({"b"}, schema, AvroLong(-1) + AvroLong(-1)),
              ElementsAre(HasSubstr("a negative length")));
}

TEST(AvroFields, OfValuesInValuesThatNeverEndAreAnError) {
  const AvroSchema list = RecordOf({{"next", R"(["null", "Row"])"}, {"x", R"("int")"}});
  EXPECT_THAT(Read({"x"}, list, std::string(100'000, '\x02')), ElementsAre(HasSubstr("too deep")));
  EXPECT_THAT(Read({"next.x"}, list, std::string(100'000, '\x02')),
              ElementsAre(HasSubstr("too deep")));
  const AvroSchema self = RecordOf({{"self", R"("Row")"}});
  EXPECT_THAT(Read({"x"}, self, ""), ElementsAre(HasSubstr("too deep")));
  EXPECT_THAT(Read({"self.self"}, self, ""), ElementsAre(HasSubstr("of the type record")));
}

// Each record stands in the one before twice: without bytes it would take 2^60 steps.
TEST(AvroFields, OfRecordsWithoutBytesTakeNoTime) {
  std::string type = R"({"type": "record", "name": "R0", "fields": []})";
  for (int i = 1; i < 60; ++i) {
    const std::string name = "R" + std::to_string(i);
    type = R"({"type": "record", "name": ")" + name + R"(", "fields": [{"name": "a", "type": )" +
           type + R"(}, {"name": "b", "type": "R)" + std::to_string(i - 1) + R"("}]})";
  }
  const AvroSchema schema = RecordOf({{"r", type}, {"x", R"("int")"}});
  EXPECT_THAT(Read({"x", "r.a.b"}, schema, "\x02"), ElementsAre("1", ""));
}

}  // namespace
}  // namespace millrace
