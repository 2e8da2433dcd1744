#include "features/csv_row_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using Fields = std::vector<std::string_view>;
using Names = std::vector<std::string>;

FeatureSpec Spec() {
  FeatureSpec spec;
  spec.set_label("y");
  spec.add_classes("0");
  spec.add_classes("1");
  spec.add_numeric("b");
  spec.add_numeric("a");
  return spec;
}

TEST(CsvRowEncoder, PicksColumnsByNameInAnyOrder) {
  CsvRowEncoder encoder = CsvRowEncoder::Create(Spec(), Names{"a", "x", "y", "b"}, "f.csv").value();
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"1", "\xFF", "1", "2"}, &row).ok());
  EXPECT_EQ(row, (Row{1, {2, 1}, {}, {}}));
}

TEST(CsvRowEncoder, RefusesAFileWithoutARequiredColumn) {
  EXPECT_EQ(CsvRowEncoder::Create(Spec(), Names{"a", "y"}, "f.csv").status().message(),
            "f.csv has no column \"b\"; its columns are: a, y");
}

TEST(CsvRowEncoder, SaysWhichCrossNamesAMissingColumnAndWhichOneMayBeMeant) {
  FeatureSpec spec = Spec();
  spec.add_categorical("carrier*houre*a");
  EXPECT_EQ(CsvRowEncoder::Create(spec, Names{"a", "b", "y", "carrier", "hour"}, "f.csv")
                .status()
                .message(),
            "categorical (--categorical): the cross \"carrier*houre*a\": f.csv has no column "
            "\"houre\"; did you mean \"hour\"? Its columns are: a, b, y, carrier, hour");
}

TEST(CsvRowEncoder, GuessesAnotherSeparatorThanTheComma) {
  const auto error = [](const Names& columns) {
    return std::string(CsvRowEncoder::Create(Spec(), columns, "f.csv").status().message());
  };
  EXPECT_THAT(error({"a\tb\ty"}), testing::EndsWith("; are they separated by tabs? Then name the "
                                                    "separator by --delimiter"));
  EXPECT_THAT(error({"a;b", "y;c"}), testing::HasSubstr("separated by semicolons?"));
  EXPECT_THAT(error({"a, b", "y"}), testing::Not(testing::HasSubstr("separated by")));
}

TEST(CsvRowEncoder, RefusesRecordsWithAnotherNumberOfFields) {
  CsvRowEncoder encoder = CsvRowEncoder::Create(Spec(), Names{"a", "b", "y"}, "f.csv").value();
  Row row;
  EXPECT_EQ(encoder.Encode(Fields{"1", "2"}, &row).message(), "2 fields, but the header has 3");
  EXPECT_EQ(encoder.Encode(Fields{"1"}, &row).message(), "1 field, but the header has 3");
  EXPECT_EQ(encoder.Encode(Fields{"1", "2", "0", ""}, &row).message(),
            "4 fields, but the header has 3");
}

TEST(CsvRowEncoder, PassesOnTheErrorsOfTheSpec) {
  FeatureSpec spec = Spec();
  spec.clear_classes();
  EXPECT_EQ(CsvRowEncoder::Create(spec, Names{"a", "b", "y"}, "f.csv").status().message(),
            "at least 2 classes are needed, there are 0");
}

}  // namespace
}  // namespace millrace
