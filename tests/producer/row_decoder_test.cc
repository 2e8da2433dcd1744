#include "producer/row_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/error_marks.h"
#include "tests/formats/avro_bytes.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The cells, or the reason why there are none.
std::vector<std::string> Cells(const CellDecoder& decode, std::string_view value) {
  std::vector<std::string> found;
  const Status decoded = decode(value, [&](std::span<const std::string_view> cells) {
    found.assign(cells.begin(), cells.end());
    return absl::OkStatus();
  });
  if (!decoded.ok()) return {std::string(decoded.message())};
  return found;
}

FeatureEncoder Encoder(const std::string& label, const std::string& number) {
  FeatureSpec spec;
  spec.set_label(label);
  spec.add_classes("no");
  spec.add_classes("yes");
  spec.add_numeric(number);
  return FeatureEncoder::Create(spec).value();
}

CellDecoder Csv(char delimiter = ',') {
  return DecodeCsv({"id", "late", "carrier"}, Encoder("late", "id"), delimiter).value();
}

TEST(DecodeJson, FindsColumnsByTheirPathsInAnyOrder) {
  const CellDecoder decode = DecodeJson({"late", "flight.distance"}, false);
  EXPECT_THAT(Cells(decode, R"({"flight": {"distance": 1.50, "to": "LAX"}, "late": "yes"})"),
              ElementsAre("yes", "1.50"));
  EXPECT_THAT(Cells(decode, R"({"late": null, "flight": {"distance": 7}})"), ElementsAre("", "7"));
}

TEST(DecodeJson, WritesNumbersWithTheDecimalSignOfTheJob) {
  EXPECT_THAT(Cells(DecodeJson({"x"}, true), R"({"x": 1.5})"), ElementsAre("1,5"));
}

TEST(DecodeJson, RefusesWhatIsNoSingleObject) {
  const CellDecoder decode = DecodeJson({"x"}, false);
  EXPECT_THAT(Cells(decode, R"([{"x": 1}])"), ElementsAre(HasSubstr("an array of rows")));
  EXPECT_THAT(Cells(decode, ""), ElementsAre(HasSubstr("malformed JSON")));
  EXPECT_THAT(Cells(decode, R"({"x": 1)"), ElementsAre(HasSubstr("malformed JSON")));
  EXPECT_THAT(Cells(decode, R"({"x": 1})"), ElementsAre("1"));
}

TEST(DecodeJson, TakesAMemberThatIsNotThereForAnEmptyCell) {
  const CellDecoder decode = DecodeJson({"late", "x"}, false);
  EXPECT_THAT(Cells(decode, R"({"late": "no", "x": 1})"), ElementsAre("no", "1"));
  EXPECT_THAT(Cells(decode, R"({"late": "yes"})"), ElementsAre("yes", ""));
  EXPECT_THAT(Cells(decode, "{}"), ElementsAre("", ""));
}

std::string Headed(std::string_view body) { return std::string("\0\0\0\1\2", 5).append(body); }

TEST(DecodeJson, PassesOverTheHeaderOfASchemaRegistry) {
  const CellDecoder decode = DecodeJson({"x"}, false);
  EXPECT_THAT(Cells(decode, Headed(R"({"x": 1})")), ElementsAre("1"));
  EXPECT_THAT(Cells(decode, Headed("{")), ElementsAre(HasSubstr("schema 258: malformed JSON")));
  EXPECT_THAT(Cells(decode, std::string(4, '\0')), ElementsAre(HasSubstr("malformed JSON")));
}

constexpr char kAvroRow[] = R"({"type": "record", "name": "R", "fields": [
    {"name": "x", "type": "double"}, {"name": "late", "type": "string"}]})";

TEST(DecodeAvro, WithoutARegistryReadsValuesOfOneSchema) {
  const auto schema = std::make_shared<const AvroSchema>(AvroSchema::Parse(kAvroRow).value());
  const CellDecoder decode = DecodeAvro({"late", "x", "none"}, true, schema);
  EXPECT_THAT(Cells(decode, AvroFloat(1.5) + AvroText("yes")), ElementsAre("yes", "1,5", ""));
  EXPECT_THAT(Cells(decode, AvroFloat(1.5)), ElementsAre(HasSubstr("malformed Avro at byte 8")));
}

TEST(DecodeAvro, OfARegistryReadsValuesOfTheSchemaInTheirHeader) {
  Status away = absl::UnavailableError("away");
  const auto fetch = [&away](uint32_t id) -> StatusOr<std::string> {
    if (!away.ok()) return away;
    EXPECT_EQ(id, 258u);
    return R"({"schema": "{\"type\": \"map\", \"values\": \"int\"}"})";
  };
  const auto fetch_reference = [](const SchemaReference&) -> StatusOr<std::string> {
    return absl::InternalError("no schema refers to others");
  };
  const auto schemas =
      std::make_shared<SchemaCache>(fetch, fetch_reference, [](const std::string&) {});
  const CellDecoder try_to_decode = DecodeAvro({"x"}, false, schemas);
  const CellDecoder decode = [&](std::string_view value, const TakeCells& take) {
    Status status = try_to_decode(value, take);
    while (IsPending(status)) status = try_to_decode(value, take);
    return status;
  };
  const std::string value = Headed(AvroLong(1) + AvroText("x") + AvroLong(7) + AvroLong(0));
  const TakeCells take_none = [](std::span<const std::string_view>) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsUnavailable(decode(value, take_none)));
  away = absl::OkStatus();
  EXPECT_THAT(Cells(decode, value), ElementsAre("7"));
  EXPECT_THAT(Cells(decode, Headed("\x02")),
              ElementsAre(HasSubstr("schema 258: malformed Avro at byte 1")));
  EXPECT_THAT(Cells(decode, std::string_view("\0\x80\0\0\0\2", 6)),
              ElementsAre(HasSubstr("schema 2147483648: no registry has ids above 2147483647")));
  EXPECT_THAT(Cells(decode, "{}"), ElementsAre(HasSubstr("no schema registry's header")));
  EXPECT_THAT(Cells(decode, ""), ElementsAre(HasSubstr("no schema registry's header")));
}

TEST(DecodeCsv, PicksTheColumnsOfALine) {
  const CellDecoder decode = Csv();
  EXPECT_THAT(Cells(decode, "7,yes,AA"), ElementsAre("yes", "7"));
  EXPECT_THAT(Cells(decode, "7,\"y\"\"es\n\",AA\r\n"), ElementsAre("y\"es\n", "7"));
  EXPECT_THAT(Cells(Csv(';'), "7;no, maybe;AA\n"), ElementsAre("no, maybe", "7"));
  EXPECT_THAT(Cells(decode, ",,"), ElementsAre("", ""));
}

TEST(DecodeCsv, RefusesWhatIsNoSingleLine) {
  const CellDecoder decode = Csv();
  EXPECT_THAT(Cells(decode, "7,yes,AA\n8,no,UA"), ElementsAre(HasSubstr("more than one line")));
  EXPECT_THAT(Cells(decode, "7,yes"), ElementsAre("2 fields, but --columns names 3"));
  EXPECT_THAT(Cells(decode, ""), ElementsAre("an empty line"));
  EXPECT_THAT(Cells(decode, "\r\n"), ElementsAre("an empty line"));
  EXPECT_THAT(Cells(decode, "7,\"yes,AA"), ElementsAre(HasSubstr("quote")));
  EXPECT_THAT(Cells(decode, "7,\"y\"es,AA"), ElementsAre(HasSubstr("quote")));
  // What was refused leaves nothing behind.
  EXPECT_THAT(Cells(decode, "7,yes,AA"), ElementsAre("yes", "7"));
}

TEST(DecodeCsv, DoesWithoutTheLabelWhereItMayBeMissing) {
  const auto cells = [](const std::vector<std::string>& header, std::string_view line) {
    return Cells(DecodeCsv(header, Encoder("late", "id"), ',', CsvColumns::Label::kIfThere).value(),
                 line);
  };
  EXPECT_THAT(cells({"carrier", "id"}, "AA,7"), ElementsAre("7"));
  EXPECT_THAT(cells({"late", "id"}, "yes,7"), ElementsAre("yes", "7"));
}

TEST(DecodeCsv, NeedsEachColumnOnce) {
  const auto why_not = [](const std::vector<std::string>& header) {
    const Status status = DecodeCsv(header, Encoder("a", "b"), ',').status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(why_not({"a", "c"}), HasSubstr("--columns has no column \"b\""));
  EXPECT_THAT(why_not({"a", "b", "a"}), HasSubstr("--columns names 'a' twice"));
}

TEST(RowDecoder, MakesRowsAndSaysWhyAValueIsNone) {
  FeatureSpec spec;
  spec.set_label("late");
  spec.add_classes("no");
  spec.add_classes("yes");
  spec.add_numeric("distance");
  spec.set_missing(FeatureSpec::REJECT);
  FeatureEncoder encoder = FeatureEncoder::Create(spec).value();
  CellDecoder cells = DecodeJson(encoder.required_columns(), false);
  RowDecoder decoder(std::move(cells), std::move(encoder));
  Row row;
  ASSERT_TRUE(decoder.Decode(R"({"distance": 12.5, "late": "yes"})", &row).ok());
  EXPECT_EQ(row.label, 1u);
  EXPECT_THAT(row.numeric, ElementsAre(12.5));
  EXPECT_THAT(std::string(decoder.Decode(R"({"distance": 1, "late": "no?"})", &row).message()),
              HasSubstr("no?"));
  EXPECT_EQ(decoder.rows(), 1u);
}

TEST(RowDecoder, TakesAMissingNumberWhereItMayBeMissing) {
  for (const bool is_rejected : {false, true}) {
    FeatureSpec spec;
    spec.set_label("late");
    spec.add_classes("no");
    spec.add_classes("yes");
    spec.add_numeric("x");
    spec.set_missing(is_rejected ? FeatureSpec::REJECT : FeatureSpec::MEAN);
    FeatureEncoder encoder = FeatureEncoder::Create(spec).value();
    CellDecoder cells = DecodeJson(encoder.required_columns(), false);
    RowDecoder decoder(std::move(cells), std::move(encoder));
    Row row;
    for (const char* const value : {R"({"late": "yes"})", R"({"late": "yes", "x": null})"}) {
      const Status decoded = decoder.Decode(value, &row);
      EXPECT_EQ(decoded.ok(), !is_rejected) << decoded;
      EXPECT_TRUE(!decoded.ok() || std::isnan(row.numeric[0]));
    }
    EXPECT_FALSE(decoder.Decode(R"({"x": 1})", &row).ok());  // no label
  }
}

// Decodes rows whose labels are elsewhere.
RowDecoder Keyed(const std::string& key, const std::vector<std::string>& header = {}) {
  FeatureEncoder encoder = Encoder("late", "x");
  const std::vector<std::string> columns = KeyedColumns(encoder, key);
  CellDecoder cells =
      header.empty() ? DecodeJson(columns, false) : DecodeCsv(header, columns, ',').value();
  return RowDecoder(std::move(cells), std::move(encoder), key);
}

TEST(RowDecoder, ReadsRowsWithoutALabelWithTheirKey) {
  RowDecoder decoder = Keyed("id");
  Row row;
  std::string key;
  ASSERT_TRUE(decoder.DecodeKeyed(R"({"x": 1.5, "id": 17, "late": "no class"})", &row, &key).ok());
  EXPECT_EQ(key, "17");
  EXPECT_EQ(row, (Row{0, {1.5}, {}, {}}));
  EXPECT_THAT(std::string(decoder.DecodeKeyed(R"({"x": 1.5})", &row, &key).message()),
              HasSubstr(R"(column "id" (--join-key) is empty or not there)"));
  EXPECT_THAT(std::string(decoder.DecodeKeyed(R"({"x": "one", "id": 1})", &row, &key).message()),
              HasSubstr(R"(column "x")"));
  EXPECT_EQ(decoder.rows(), 1u);
}

TEST(RowDecoder, TakesAFeatureForAKey) {
  RowDecoder decoder = Keyed("x");
  Row row;
  std::string key;
  ASSERT_TRUE(decoder.DecodeKeyed(R"({"x": 1.50})", &row, &key).ok());
  EXPECT_EQ(key, "1.50");
  EXPECT_EQ(row, (Row{0, {1.5}, {}, {}}));
}

TEST(RowDecoder, FindsKeyAndFeaturesInALineOfCsvWithoutALabel) {
  RowDecoder decoder = Keyed("id", {"other", "id", "x"});
  Row row;
  std::string key;
  ASSERT_TRUE(decoder.DecodeKeyed("a,17,2\n", &row, &key).ok());
  EXPECT_EQ(key, "17");
  EXPECT_EQ(row, (Row{0, {2}, {}, {}}));
  EXPECT_THAT(std::string(decoder.DecodeKeyed("a,17", &row, &key).message()),
              HasSubstr("2 fields, but --columns names 3"));
  EXPECT_THAT(
      std::string(DecodeCsv({"id", "y"}, {"id", "x"}, ',', "--label-columns").status().message()),
      HasSubstr(R"(--label-columns has no column "x")"));
}

TEST(RowDecoder, NamesTheColumnsThatWereEmptyInAllRows) {
  FeatureEncoder encoder = Encoder("late", "x");
  CellDecoder cells = DecodeJson(encoder.required_columns(), false);
  RowDecoder decoder(std::move(cells), std::move(encoder));
  Row row;
  ASSERT_TRUE(decoder.Decode(R"({"late": "no", "X": 1})", &row).ok());
  EXPECT_FALSE(decoder.Decode(R"({"late": "no?", "x": 1})", &row).ok());  // no row
  EXPECT_THAT(decoder.EmptyColumns(), ElementsAre("x"));
  ASSERT_TRUE(decoder.Decode(R"({"late": "no", "x": 1})", &row).ok());
  EXPECT_THAT(decoder.EmptyColumns(), ElementsAre());
}

}  // namespace
}  // namespace millrace
