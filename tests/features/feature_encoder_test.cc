#include "features/feature_encoder.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "features/murmur3.h"
#include "features/spec_checks.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fields = std::vector<std::string_view>;

FeatureSpec Spec(const std::string& text) {
  FeatureSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

FeatureEncoder Encoder(const std::string& text) {
  return FeatureEncoder::Create(Spec(text)).value();
}

std::string SpecError(const std::string& text) {
  return std::string(FeatureEncoder::Create(Spec(text)).status().message());
}

std::string RowError(FeatureEncoder& encoder, const Fields& fields) {
  Row row;
  return std::string(encoder.Encode(fields, &row).message());
}

constexpr char kAll[] = R"(label: "y" classes: ["no", "yes"] numeric: ["n1", "n2"] missing: REJECT
                           categorical: ["c1", "c2*n1"] categorical_buckets: 100
                           text: "t" text_buckets: 1024)";

TEST(FeatureEncoder, PutsNumbersThenCategoriesThenText) {
  FeatureEncoder encoder = Encoder(kAll);  // without indicators
  EXPECT_EQ(encoder.required_columns(),
            (std::vector<std::string>{"y", "n1", "n2", "c1", "c2", "t"}));
  EXPECT_EQ(encoder.numeric_count(), 2u);
  EXPECT_EQ(encoder.hashed_count(), 1124u);
  EXPECT_EQ(encoder.feature_count(), 1126u);
  EXPECT_EQ(encoder.class_count(), 2u);

  Row row = {9, {1, 2, 3}, {5, 6}, {1, 1}};
  ASSERT_TRUE(
      encoder.Encode(Fields{" yes\t", " +1.5 ", "-2e3", " red", "x", "cat Cat"}, &row).ok());
  EXPECT_EQ(row.label, 1u);
  EXPECT_THAT(row.numeric, ElementsAre(1.5, -2000));
  std::vector<uint32_t> index = {2 + static_cast<uint32_t>(Murmur3("c1=red")) % 100,
                                 2 + static_cast<uint32_t>(Murmur3("c2*n1=x*+1.5")) % 100};
  std::sort(index.begin(), index.end());
  index.push_back(2 + 100 + 807);  // scikit-learn's feature of "cat" among 1024
  EXPECT_EQ(row.index, index);
  EXPECT_THAT(row.value, ElementsAre(1, 1, 1));
}

TEST(FeatureEncoder, GivesIdColumnsIdsAndNoFeatures) {
  FeatureEncoder encoder =
      Encoder(R"(label: "y" classes: ["no", "yes"] ids: ["c1", "c2*c1"] numeric: "n"
                                      missing: MEAN)");
  EXPECT_EQ(encoder.required_columns(), (std::vector<std::string>{"y", "n", "c1", "c2"}));
  EXPECT_EQ(encoder.feature_count(), 1u);
  Row row = {9, {1, 2}, {5}, {1}};
  row.ids = {1, 2, 3};
  ASSERT_TRUE(encoder.Encode(Fields{"no", "4", " red ", "x"}, &row).ok());
  std::vector<EmbeddingId> ids;
  CategoryHasher(std::vector<std::string>{"c1", "c2*c1"}, 1).SetIds(Fields{"red", "x"}, &ids);
  EXPECT_EQ(row.ids, ids);
  EXPECT_TRUE(row.index.empty());
  EXPECT_THAT(RowError(encoder, {"no", "4", "\xff", "x"}), HasSubstr("column \"c1\""));
}

TEST(FeatureEncoder, OfARegressionTheLabelIsANumber) {
  FeatureEncoder encoder = Encoder(R"(label: "stars" regression: true ids: "user")");
  EXPECT_EQ(encoder.class_count(), 0u);
  Row row;
  row.target = 9;
  ASSERT_TRUE(encoder.Encode(Fields{" 3.5", "u1"}, &row).ok());
  EXPECT_EQ(row.target, 3.5f);
  EXPECT_EQ(row.label, 0u);
  for (const char* cell : {"", "many", "nan", "1e30", "-inf"}) {
    EXPECT_THAT(RowError(encoder, {cell, "u1"}), HasSubstr("column \"stars\"")) << cell;
  }
  EXPECT_THAT(SpecError(R"(label: "y" regression: true classes: ["a", "b"] ids: "u")"),
              HasSubstr("no classes"));
  EXPECT_THAT(SpecError(R"(label: "y" regression: true ids: ["u", "y"])"), HasSubstr("the label"));
  EXPECT_THAT(SpecError(R"(label: "y" regression: true ids: ["u", "u"])"), HasSubstr("twice"));
}

TEST(FeatureEncoder, SpendsNoFeaturesOnKindsOfColumnsThatThereAreNone) {
  EXPECT_EQ(Encoder("label: 'y' classes: ['0', '1'] numeric: 'n' missing: MEAN").feature_count(),
            1u);
  EXPECT_EQ(Encoder("label: 'y' classes: ['0', '1'] numeric: 'n'").feature_count(), 2u);
  EXPECT_EQ(Encoder("label: 'y' classes: ['0', '1'] text: 't'").feature_count(), 1024u);
  EXPECT_EQ(Encoder("label: 'y' classes: ['0', '1'] categorical: 'c'").feature_count(), 4096u);
}

TEST(FeatureEncoder, MatchesLabelsThatAreEqualNumbers) {
  FeatureEncoder encoder = Encoder("label: 'y' classes: ['1', '2.0'] numeric: 'n'");
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"2", "0"}, &row).ok());
  EXPECT_EQ(row.label, 1u);
  ASSERT_TRUE(encoder.Encode(Fields{"1.00", "0"}, &row).ok());
  EXPECT_EQ(row.label, 0u);
}

TEST(FeatureEncoder, SaysWhichCellIsWrongAndWhy) {
  FeatureEncoder encoder = Encoder(kAll);
  EXPECT_EQ(RowError(encoder, {"maybe", "1", "2", "c", "d", "t"}),
            "column \"y\": \"maybe\" is none of the classes (no, yes)");
  EXPECT_EQ(RowError(encoder, {"  ", "1", "2", "c", "d", "t"}), "column \"y\": the label is empty");
  EXPECT_EQ(RowError(encoder, {"\xFF", "1", "2", "c", "d", "t"}),
            "column \"y\": \"\\377\" is not valid UTF-8 (if the file is in latin-1, give "
            "--encoding latin1)");
  EXPECT_EQ(RowError(encoder, {"no", "1", "2x", "c", "d", "t"}),
            "column \"n2\": \"2x\" is not a number (if it means that there is no value, add "
            "it to --missing-tokens)");
  EXPECT_THAT(RowError(encoder, {"no", "inf", "2", "c", "d", "t"}),
              HasSubstr("column \"n1\": \"inf\" is not a number"));
  EXPECT_EQ(RowError(encoder, {"no", "1e999", "2", "c", "d", "t"}),
            "column \"n1\": \"1e999\" is beyond the range of a double");
  EXPECT_EQ(RowError(encoder, {"no", "1", "", "c", "d", "t"}),
            "column \"n2\": \"\" is a missing value (--missing mean takes the mean of the column)");
  EXPECT_EQ(RowError(encoder, {"no", "1", "2", "\xC3", "d", "t"}),
            "column \"c1\": \"\\303\" is not valid UTF-8 (if the file is in latin-1, give "
            "--encoding latin1)");
  EXPECT_EQ(RowError(encoder, {"no", "1", "2", "c", "d", "caf\xE9 noir"}),
            "column \"t\": \"caf\\351 noir\" is not valid UTF-8 (if the file is in latin-1, give "
            "--encoding latin1)");
}

TEST(FeatureEncoder, MakesMissingNumbersNotANumberIfTheSpecSaysSo) {
  FeatureEncoder encoder =
      Encoder("label: 'y' classes: ['0', '1'] numeric: ['a', 'b', 'c', 'd'] missing: MEAN");
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"0", "", " NA ", "NaN", "1"}, &row).ok());
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(row.numeric[i]));
  EXPECT_EQ(row.numeric[3], 1);
  EXPECT_THAT(RowError(encoder, {"0", "1", "2", "3", "inf"}), HasSubstr("is not a number"));
  EXPECT_EQ(encoder.feature_count(), 4u);
  EXPECT_TRUE(row.index.empty());
}

TEST(FeatureEncoder, ByDefaultSaysOfEachMissingNumberThatItIsMissing) {
  FeatureEncoder encoder = Encoder(R"(label: "y" classes: ["0", "1"] numeric: ["a", "b", "c"]
                                      categorical: "d" categorical_buckets: 10
                                      text: "t" text_buckets: 1024)");
  EXPECT_EQ(encoder.numeric_count(), 3u);
  EXPECT_EQ(encoder.hashed_count(), 3u + 10 + 1024);
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"0", " ? ", "7", "null", "x", "cat"}, &row).ok());
  EXPECT_TRUE(std::isnan(row.numeric[0]));
  EXPECT_EQ(row.numeric[1], 7);
  EXPECT_TRUE(std::isnan(row.numeric[2]));
  EXPECT_THAT(row.index,
              ElementsAre(3 + 0, 3 + 2, 6 + static_cast<uint32_t>(Murmur3("d=x")) % 10, 16 + 807));
  EXPECT_THAT(row.value, ElementsAre(1, 1, 1, 1));
  ASSERT_TRUE(encoder.Encode(Fields{"0", "1", "7", "2", "x", ""}, &row).ok());
  EXPECT_EQ(row.index.size(), 1u) << "nothing is missing";
}

TEST(FeatureEncoder, OnlyOfNumbersASpecNamesCellsThatMeanMissing) {
  FeatureEncoder encoder = Encoder(R"(label: "y" classes: ["-999", "1"] numeric: "n"
                                      categorical: "c" missing_tokens: ["-999", "none"])");
  Row row;
  for (const char* cell : {"-999", "-999.0", "None", ""}) {
    ASSERT_TRUE(encoder.Encode(Fields{"-999", cell, "-999"}, &row).ok()) << cell;
    EXPECT_TRUE(std::isnan(row.numeric[0])) << cell;
    EXPECT_EQ(row.index.size(), 2u) << "the indicator, and the category -999";
  }
  EXPECT_THAT(RowError(encoder, {"1", "NA", "x"}), HasSubstr("is not a number"));
}

constexpr char kBinned[] = R"(label: "y" classes: ["no", "yes"] numeric: "n" categorical: "c*m*n"
                              categorical_buckets: 1000000 bins: ["n:3", "m:2"]
                              bin_edges { column: "n" edge: [1, 2.5] }
                              bin_edges { column: "m" edge: 10 })";

// The features of these keys among the hashed ones of kBinned.
std::vector<uint32_t> BucketsOf(const std::vector<std::string>& keys) {
  std::vector<uint32_t> index;
  for (const std::string& key : keys) {
    index.push_back(2 + static_cast<uint32_t>(Murmur3(key)) % 1000000);
  }
  std::sort(index.begin(), index.end());
  return index;
}

TEST(FeatureEncoder, MakesCategoriesOfTheBinsOfNumbersAndCrossesThem) {
  FeatureEncoder encoder = Encoder(kBinned);
  EXPECT_EQ(encoder.required_columns(), (std::vector<std::string>{"y", "n", "c", "m"}));
  EXPECT_EQ(encoder.numeric_count(), 1u) << "m is no number, only a category";
  EXPECT_EQ(encoder.feature_count(), 2u + 1000000);
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"no", " 2.5", "red", "9.99"}, &row).ok());
  EXPECT_THAT(row.numeric, ElementsAre(2.5));
  EXPECT_EQ(row.index, BucketsOf({"n=2", "m=0", "c*m*n=red*0*2"}));
  ASSERT_TRUE(encoder.Encode(Fields{"no", "0.99", "red", "+1e1"}, &row).ok());
  EXPECT_EQ(row.index, BucketsOf({"n=0", "m=1", "c*m*n=red*1*0"}));
}

TEST(FeatureEncoder, GivesMissingNumbersABinOfTheirOwn) {
  FeatureEncoder encoder = Encoder(kBinned);
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"no", "?", "red", ""}, &row).ok());
  std::vector<uint32_t> index = {1};  // the indicator of n
  for (const uint32_t bucket : BucketsOf({"n=", "m=", "c*m*n=red**"})) index.push_back(bucket);
  EXPECT_EQ(row.index, index);
  EXPECT_THAT(RowError(encoder, {"no", "1", "red", "x"}),
              HasSubstr("column \"m\": \"x\" is not a number"));
  FeatureEncoder strict = Encoder(std::string(kBinned) + " missing: REJECT");
  EXPECT_THAT(RowError(strict, {"no", "1", "red", ""}), HasSubstr("is a missing value"));
}

TEST(FeatureEncoder, GivesTheBinOfANumberAnIdInItsPlace) {
  FeatureEncoder encoder = Encoder(R"(label: "y" regression: true ids: ["u*m", "m"] bins: "m:4"
                                      bin_edges { column: "m" edge: 10 })");
  Row row;
  ASSERT_TRUE(encoder.Encode(Fields{"1", "12", "u1"}, &row).ok());
  std::vector<EmbeddingId> ids;
  CategoryHasher(std::vector<std::string>{"u*m", "m"}, 1).SetIds(Fields{"u1", "1"}, &ids);
  EXPECT_EQ(row.ids, ids);
}

TEST(FeatureEncoder, ReadsAndChecksTheNumbersThatAreToBeBinned) {
  const FeatureEncoder encoder =
      FeatureEncoder::CreateWithoutClasses(
          Spec("label: 'y' numeric: 'n' categorical: 'c' bins: ['m', 'n']"))
          .value();
  std::vector<double> values;
  ASSERT_TRUE(encoder.ReadBinned(Fields{"y", "1", "c", "NA"}, &values).ok());
  EXPECT_TRUE(std::isnan(values.at(0)));
  EXPECT_EQ(values.at(1), 1);
  EXPECT_FALSE(encoder.ReadBinned(Fields{"y", "1", "c", "x"}, &values).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"y", "1", "c", "x"}).ok());
  EXPECT_TRUE(encoder.CheckFeatures(Fields{"y", "1", "c", "2"}).ok());
}

TEST(FeatureEncoder, RefusesBinsThatCannotBeUsed) {
  const std::string good = "label: 'y' classes: ['0', '1'] numeric: 'n' ";
  EXPECT_THAT(SpecError(good + "bins: 'n'"), HasSubstr("no bin_edges"));
  EXPECT_THAT(SpecError(good + "bins: 'n:1'"), HasSubstr("give 2 to 256"));
  EXPECT_THAT(SpecError(good + "bins: 'y'"), HasSubstr("bins (--bins) names the column \"y\""));
  EXPECT_THAT(SpecError(good + "bins: 'n' categorical: ' n'"),
              HasSubstr("bins (--bins) and categorical (--categorical) name \"n\""));
  EXPECT_THAT(SpecError(good + "bins: 'n:2' bin_edges { column: 'n' edge: [1, 2] }"),
              HasSubstr("give fewer edges than bins"));
  EXPECT_THAT(SpecError(good + "bin_edges { column: 'n' edge: [1, 2] }"),
              HasSubstr("--bins names 0"));
  EXPECT_THAT(SpecError(good + "bins: '\377'"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(SpecError(good + "bins: 'n' bin_edges { column: '\377' }"),
              HasSubstr("not valid UTF-8"));
  EXPECT_THAT(SpecError(good + "bins: 'n' bin_edges { column: 'n' } categorical_buckets: 0"),
              HasSubstr("categorical_buckets (--categorical-buckets) is 0"));
}

TEST(FeatureEncoder, RefusesCrossesOfNumbersThatHaveNoBins) {
  const auto error = [](const std::string& text) {
    return std::string(
        CheckCrossesOfNumbers(Spec("label: 'y' numeric: ['n', 'm'] " + text)).message());
  };
  EXPECT_EQ(error("categorical: ['c', 'c*n']"),
            "categorical (--categorical): the cross \"c*n\" names the numeric column \"n\", of "
            "which each number would be a category: add --bins n to cross its bins, or name n in "
            "--categorical by itself, too, if it has few values");
  EXPECT_THAT(error("ids: 'c*d*m'"), HasSubstr("ids (--ids): the cross \"c*d*m\" names the"));
  EXPECT_EQ(error("categorical: 'c*n' bins: 'n'"), "");
  EXPECT_EQ(error("categorical: ['n', 'c*n'] ids: 'u*n'"), "");
  EXPECT_EQ(error("categorical: ['c', 'd', 'c*d']"), "");
  EXPECT_TRUE(
      FeatureEncoder::CreateWithoutClasses(Spec("label: 'y' numeric: 'n' categorical: 'c*n'")).ok())
      << "jobs from before there were bins have such crosses";
}

TEST(FeatureEncoder, EncodesRecordsWithoutALabel) {
  FeatureEncoder encoder =
      FeatureEncoder::CreateWithoutClasses(Spec("label: 'y' numeric: 'n' text: 't' missing: MEAN"))
          .value();
  Row row;
  row.label = 7;
  ASSERT_TRUE(encoder.EncodeFeatures(Fields{"3", "cat"}, &row).ok());
  EXPECT_EQ(row, (Row{0, {3}, {808}, {1}}));
  EXPECT_THAT(RowError(encoder, {"a", "3", "cat"}), HasSubstr("none of the classes"));
}

TEST(FeatureEncoder, ChecksFeaturesAsEncodeDoes) {
  const FeatureEncoder encoder = Encoder(kAll);
  EXPECT_TRUE(encoder.CheckFeatures(Fields{"any", "1", "2", "c", "d", "t"}).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"no", "1", "x", "c", "d", "t"}).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"no", "1", "2", "\xFF", "d", "t"}).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"no", "1", "2", "c", "\xFF", "t"}).ok());
  EXPECT_FALSE(encoder.CheckFeatures(Fields{"no", "1", "2", "c", "d", "\xFF"}).ok());
}

TEST(FeatureEncoder, AllocatesNothingForAWarmRow) {
  FeatureEncoder encoder = Encoder(kAll);
  Row row;
  const Fields fields = {"no", "1", "2", "c", "d", "some words of a text"};
  ASSERT_TRUE(encoder.Encode(fields, &row).ok());
  const Row first = row;
  const void* storage[] = {row.numeric.data(), row.index.data(), row.value.data()};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(encoder.Encode(fields, &row).ok());
  EXPECT_EQ(row, first);
  EXPECT_THAT(storage, ElementsAre(row.numeric.data(), row.index.data(), row.value.data()));
}

TEST(FeatureEncoder, RefusesASpecThatCannotBeUsed) {
  EXPECT_THAT(SpecError("numeric: 'n' classes: ['0', '1']"), HasSubstr("no label column"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1']"), HasSubstr("no feature columns"));
  EXPECT_EQ(SpecError("label: 'y' classes: '0' numeric: 'n'"),
            "at least 2 classes are needed, there is 1");
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] numeric: ['n', 'y']"),
              HasSubstr("numeric (--numeric) names the column \"y\", which is the label"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] categorical: 'a*y'"),
              HasSubstr("categorical (--categorical) names the column \"y\", which is the label"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] text: 'y'"),
              HasSubstr("text (--text) names the column \"y\", which is the label"));
  EXPECT_EQ(SpecError("label: 'y' classes: ['0', '1'] numeric: ['n', 'n']"),
            "numeric (--numeric) names \"n\" twice");
  EXPECT_EQ(SpecError("label: 'y' classes: ['0', '1'] categorical: ['a*b', 'a * b']"),
            "categorical (--categorical) names \"a * b\" twice");
  EXPECT_EQ(SpecError("label: 'y' classes: ['0', '1'] categorical: 'a*a'"),
            "a cross of categorical (--categorical) names \"a\" twice");
  EXPECT_EQ(SpecError("label: 'y' classes: ['0', '1'] categorical: 'a*'"),
            "categorical (--categorical) names an empty column");
  EXPECT_EQ(SpecError("label: 'y' classes: ['0', '1'] numeric: ''"),
            "numeric (--numeric) names an empty column");
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] text: 't' text_buckets: 0"),
              HasSubstr("text_buckets (--text-buckets) is 0"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] categorical: 'c' categorical_buckets: 0"),
              HasSubstr("categorical_buckets (--categorical-buckets) is 0"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] categorical: 'c' text: 't' "
                        "categorical_buckets: 4000000000 text_buckets: 300000000"),
              HasSubstr("do not fit into 32 bits"));
  EXPECT_THAT(SpecError("label: 'y' classes: ['0', '1'] numeric: 'n' missing_tokens: '\\377'"),
              HasSubstr("missing_tokens"));
}

}  // namespace
}  // namespace millrace
