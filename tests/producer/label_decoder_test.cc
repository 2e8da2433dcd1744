#include "producer/label_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::HasSubstr;

FeatureSpec Spec() {
  FeatureSpec spec;
  spec.set_label("late");
  spec.add_classes("no");
  spec.add_classes("yes");
  spec.add_numeric("distance");
  return spec;
}

SourceFormat Json() {
  return SourceFormat::Create(JobConfig(), {}, [](const std::string&) {}).value();
}

std::string Reason(const StatusOr<LabelDecoder>& decoder) {
  return std::string(decoder.status().message());
}

TEST(LabelDecoder, ReadsKeyAndLabelAndNoFeature) {
  LabelDecoder decoder = LabelDecoder::Create(Spec(), "flight.id", Json()).value();
  std::string key;
  JoinedLabel label;
  ASSERT_TRUE(decoder.Decode(R"({"late": "yes", "flight": {"id": 17}})", &key, &label).ok());
  EXPECT_EQ(key, "17");
  EXPECT_EQ(label, (JoinedLabel{.id = 1}));
  EXPECT_EQ(decoder.Read("no").value(), (JoinedLabel{.id = 0}));
  EXPECT_TRUE(absl::IsInvalidArgument(decoder.Read("maybe").status()));
}

TEST(LabelDecoder, ReadsNumbersOfARegression) {
  FeatureSpec spec = Spec();
  spec.clear_classes();
  spec.set_regression(true);
  LabelDecoder decoder = LabelDecoder::Create(spec, "id", Json()).value();
  std::string key;
  JoinedLabel label;
  ASSERT_TRUE(decoder.Decode(R"({"late": 2.5, "id": "a"})", &key, &label).ok());
  EXPECT_EQ(label, (JoinedLabel{.target = 2.5F}));
}

TEST(LabelDecoder, SaysWhatIsNoLabel) {
  LabelDecoder decoder = LabelDecoder::Create(Spec(), "id", Json()).value();
  std::string key;
  JoinedLabel label;
  EXPECT_THAT(std::string(decoder.Decode(R"({"late": "yes"})", &key, &label).message()),
              HasSubstr(R"(column "id" (--join-key) is empty or not there)"));
  EXPECT_THAT(std::string(decoder.Decode(R"({"id": 1})", &key, &label).message()),
              HasSubstr(R"(column "late": the label is empty)"));
  EXPECT_THAT(std::string(decoder.Decode(R"({"id": 1, "late": "x"})", &key, &label).message()),
              HasSubstr(R"("x")"));
  EXPECT_TRUE(absl::IsInvalidArgument(decoder.Decode("no JSON", &key, &label)));
}

TEST(LabelDecoder, RefusesAKeyThatIsTheLabelAndColumnsThatAreNotThere) {
  EXPECT_THAT(Reason(LabelDecoder::Create(Spec(), "late", Json())),
              HasSubstr("--join-key names the column \"late\""));
  EXPECT_THAT(Reason(LabelDecoder::Create(Spec(), "a*b", Json())), HasSubstr("no *"));
  SourceFormat::Options options;
  options.kind = SourceFormat::Kind::kCsv;
  options.columns = {"distance"};
  const SourceFormat csv = SourceFormat::Create(JobConfig(), options, [](const std::string&) {})
                               .value()
                               .WithColumns({"key", "late"}, "--label-columns");
  EXPECT_TRUE(LabelDecoder::Create(Spec(), "key", csv).ok());
  EXPECT_THAT(std::string(LabelDecoder::Check(Spec(), "id", csv).message()),
              HasSubstr(R"(--label-columns has no column "id")"));
}

}  // namespace
}  // namespace millrace
