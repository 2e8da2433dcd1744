// Cells as people write them: decimal commas, truth values, times; and any name of a column.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "features/csv_row_encoder.h"
#include "features/feature_encoder.h"
#include "features/murmur3.h"
#include "features/number.h"
#include "features/spec_checks.h"
#include "features/text_hasher.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Fields = std::vector<std::string_view>;

StatusOr<FeatureEncoder> Create(const std::string& text) {
  FeatureSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("label: 'y' " + text, &spec)) << text;
  return FeatureEncoder::CreateWithoutClasses(spec);
}

FeatureEncoder Encoder(const std::string& text) { return Create(text).value(); }

Row Encoded(FeatureEncoder& encoder, const Fields& fields) {
  Row row;
  const Status status = encoder.EncodeFeatures(fields, &row);
  EXPECT_TRUE(status.ok()) << status;
  return row;
}

std::string ErrorOf(FeatureEncoder& encoder, const Fields& fields) {
  Row row;
  return std::string(encoder.EncodeFeatures(fields, &row).message());
}

std::vector<uint32_t> Buckets(const std::vector<std::string>& keys, uint32_t first,
                              uint32_t buckets) {
  std::vector<uint32_t> all;
  for (const std::string& key : keys) {
    all.push_back(first + static_cast<uint32_t>(Murmur3(key)) % buckets);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(CommaNumber, IsReadWithADecimalCommaAndPointsBetweenGroups) {
  const auto number = [](std::string_view text) {
    double value = NAN;
    EXPECT_EQ(ParseCommaNumber(text, &value), NumberKind::kNumber) << text;
    return value;
  };
  EXPECT_EQ(number("1,5"), 1.5);
  EXPECT_EQ(number("-0,25"), -0.25);
  EXPECT_EQ(number("+,5"), 0.5);
  EXPECT_EQ(number("3,"), 3);
  EXPECT_EQ(number("12"), 12);
  EXPECT_EQ(number("6,02e23"), 6.02e23);
  EXPECT_EQ(number("1.234,5"), 1234.5);
  EXPECT_EQ(number("-12.345.678"), -12345678);
  double value;
  for (const char* text : {"1.5", "1,5,0", "1.23,4", "1234.567", ".123", "1..234", "1,234.5", ",",
                           "", "1.234.56", "x,5", "+-1,5", "1,5x"}) {
    EXPECT_EQ(ParseCommaNumber(text, &value), NumberKind::kInvalid) << text;
  }
  EXPECT_EQ(ParseCommaNumber("1,0e999", &value), NumberKind::kTooLarge);
}

TEST(CellForms, ADecimalCommaIsReadWhereTheSpecSaysSo) {
  FeatureEncoder encoder =
      Encoder("numeric: ['a', 'b'] decimal_comma: true missing_tokens: ['-99,5', '-1.5']");
  EXPECT_THAT(Encoded(encoder, {"1.000,5", " -2 "}).numeric, ElementsAre(1000.5, -2));
  EXPECT_TRUE(std::isnan(Encoded(encoder, {"-99,50", "0"}).numeric[0]));
  EXPECT_TRUE(std::isnan(Encoded(encoder, {"0", "-1,5"}).numeric[1]));
  EXPECT_THAT(ErrorOf(encoder, {"1.5", "0"}), HasSubstr("with a decimal comma"));
  FeatureEncoder points = Encoder("numeric: 'a'");
  EXPECT_THAT(ErrorOf(points, {"1,5"}), HasSubstr("give --decimal-comma"));
}

TEST(CellForms, TheLabelOfARegressionMayHaveADecimalComma) {
  FeatureEncoder encoder = Encoder("regression: true numeric: 'a' decimal_comma: true");
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"2,5", "1"}, &row).ok());
  EXPECT_EQ(row.target, 2.5f);
  EXPECT_THAT(std::string(encoder.Encode(Fields{"2.5", "1"}, &row).message()),
              HasSubstr("with a decimal comma"));
  FeatureEncoder points = Encoder("regression: true numeric: 'a'");
  EXPECT_THAT(std::string(points.Encode(Fields{"2,5", "1"}, &row).message()),
              HasSubstr("give --decimal-comma"));
  EXPECT_THAT(std::string(points.Encode(Fields{"1e30", "1"}, &row).message()),
              HasSubstr("within -1e18 and 1e18"));
}

TEST(CellForms, TrueAndFalseAreNumbersInAnyNumericColumn) {
  FeatureEncoder encoder = Encoder("numeric: ['a', 'b', 'c']");
  EXPECT_THAT(Encoded(encoder, {"true", " False ", "TRUE"}).numeric, ElementsAre(1, 0, 1));
  // A T may be a trace of rain, and a no may be no value: such columns are to be named.
  for (const char* cell : {"T", "no", "yes", "f"}) {
    EXPECT_THAT(ErrorOf(encoder, {cell, "1", "1"}), HasSubstr("name it in --booleans")) << cell;
  }
}

TEST(CellForms, AColumnOfBooleansHasTruthValuesOnly) {
  FeatureEncoder encoder = Encoder("numeric: ['a', 'b'] booleans: 'b'");
  for (const char* cell : {"true", "T", "Yes", "y", "ON", "1"}) {
    EXPECT_THAT(Encoded(encoder, {"7", cell}).numeric, ElementsAre(7, 1)) << cell;
  }
  for (const char* cell : {"False", "f", "NO", "n", "off", "0"}) {
    EXPECT_THAT(Encoded(encoder, {"7", cell}).numeric, ElementsAre(7, 0)) << cell;
  }
  EXPECT_TRUE(std::isnan(Encoded(encoder, {"7", "?"}).numeric[1]));
  EXPECT_THAT(ErrorOf(encoder, {"7", "2"}), HasSubstr("(--booleans)"));
  EXPECT_THAT(std::string(Create("numeric: 'a' booleans: 'b'").status().message()),
              HasSubstr("booleans (--booleans) names \"b\", which numeric"));
}

TEST(CellForms, SeveralTextsHaveFeaturesOfTheirOwn) {
  FeatureEncoder encoder = Encoder("numeric: 'n' text: ['a', 'b'] text_buckets: 64");
  EXPECT_EQ(encoder.feature_count(), 1 + 1 + 2 * 64u);
  const Row row = Encoded(encoder, {"1", "red cat", "cat"});
  std::vector<uint32_t> index;
  std::vector<float> value;
  TextHasher hasher(64);
  ASSERT_TRUE(hasher.Append("red cat", 2, &index, &value));
  ASSERT_TRUE(hasher.Append("cat", 2 + 64, &index, &value));
  EXPECT_EQ(row.index, index);
  EXPECT_EQ(row.value, value);
  EXPECT_THAT(ErrorOf(encoder, {"1", "x", "\xFF"}), HasSubstr("column \"b\""));
  EXPECT_THAT(std::string(Create("text: ['a', 'a']").status().message()), HasSubstr("twice"));
  EXPECT_THAT(std::string(Create("text: ['a', 'y']").status().message()), HasSubstr("the label"));
}

TEST(CellForms, ATimeHasFurtherColumnsThatAnyFieldMayName) {
  FeatureEncoder encoder = Encoder(
      "times: ['at', 'unused'] numeric: ['n', 'at.days'] categorical: ['at.hour', 'at.weekday*c'] "
      "ids: 'at.month' categorical_buckets: 1000 missing: MEAN decimal_comma: true");
  EXPECT_EQ(encoder.required_columns(), (std::vector<std::string>{"y", "n", "at", "c"}));
  Row row = Encoded(encoder, {"2,5", " 1970-02-02T06:00:00Z ", "x"});
  EXPECT_THAT(row.numeric, ElementsAre(2.5, 32.25));
  EXPECT_EQ(row.index, Buckets({"at.hour=6", "at.weekday*c=1*x"}, 2, 1000));
  std::vector<EmbeddingId> ids;
  CategoryHasher(std::vector<std::string>{"at.month"}, 1).SetIds(Fields{"2"}, &ids);
  EXPECT_EQ(row.ids, ids);
  EXPECT_TRUE(encoder.CheckFeatures(Fields{"", "1", "1970-02-02", "x"}).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"", "1", "soon", "x"}).ok());
  EXPECT_THAT(ErrorOf(encoder, {"1", "soon", "x"}),
              AllOf(HasSubstr("column \"at\": \"soon\" is not a time (seconds"),
                    HasSubstr("add it to --missing-tokens")));
}

TEST(CellForms, APartOfAMissingTimeIsMissing) {
  FeatureEncoder encoder = Encoder(
      "times: 'at' numeric: 'at.days' categorical: 'at.hour' categorical_buckets: 1000 "
      "missing: MEAN");
  for (const char* cell : {"", " ", "NA"}) {
    const Row row = Encoded(encoder, {cell});
    EXPECT_TRUE(std::isnan(row.numeric[0])) << cell;
    EXPECT_EQ(row.index, Buckets({"at.hour="}, 1, 1000)) << cell;
  }
}

TEST(CellForms, SeveralTimesAreKeptApart) {
  FeatureEncoder encoder = Encoder(
      "times: ['a', 'b'] numeric: ['a.days', 'b.days', 'a.hour', 'b.hour'] bins: 'b.month:2' "
      "missing: MEAN");
  EXPECT_THAT(Encoded(encoder, {"1970-01-02T03:00", "1970-01-03T05:00"}).numeric,
              ElementsAre(1.125, 2 + 5.0 / 24, 3, 5));
  std::vector<double> binned;
  ASSERT_TRUE(encoder.ReadBinned(Fields{"", "0", "1970-03-01"}, &binned).ok());
  EXPECT_THAT(binned, ElementsAre(3));
}

TEST(CellForms, ATimePartIsNoLabelAndNoOtherColumn) {
  FeatureSpec spec;
  spec.set_label("at.hour");
  spec.add_times("at");
  spec.add_numeric("at.days");
  EXPECT_THAT(std::string(ValidateColumns(spec).message()), HasSubstr("column of the file"));
  EXPECT_THAT(std::string(CsvRowEncoder::Create(Encoder("times: 'at' numeric: 'at.days'"),
                                                {"y", "at", "at.hour"}, "x.csv")
                              .status()
                              .message()),
              AllOf(HasSubstr("x.csv has a column \"at.hour\""), HasSubstr("rename")));
}

TEST(CellForms, AnyNameOfAColumnCanBeNamed) {
  const std::vector<std::string> names = {"y", "a,b", "a*b", "a=b", "\"q\"", "a \"b\"", "x:8"};
  FeatureSpec spec;
  spec.set_label("y");
  spec.add_numeric("a,b");
  spec.add_categorical("\"a*b\"");
  spec.add_categorical("a=b*\"\"\"q\"\"\"");
  spec.add_categorical("a \"b\"");
  spec.set_categorical_buckets(1 << 20);
  spec.set_missing(FeatureSpec::MEAN);
  spec.add_bins("\"x:8\":4");
  auto rows = CsvRowEncoder::Create(FeatureEncoder::CreateWithoutClasses(spec).value(), names, "x");
  ASSERT_TRUE(rows.ok()) << rows.status();
  const auto fields = rows->Select(Fields{"0", "5", "1*2", "3=4", "q", "ab", "7"});
  FeatureEncoder encoder = rows->encoder();
  const Row row = Encoded(encoder, Fields(fields->begin() + 1, fields->end()));
  EXPECT_THAT(row.numeric, ElementsAre(5));
  EXPECT_EQ(row.index,
            Buckets({"a\\*b=1*2", "a\\=b*\"q\"=3=4*q", "a \"b\"=ab", "x:8=0"}, 1, 1 << 20));
}

}  // namespace
}  // namespace millrace
