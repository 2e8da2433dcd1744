#include "producer/job_draft.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "features/spec_checks.h"
#include "producer/job_features.h"
#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class JobDraft : public testing::Test {
 protected:
  std::string TextOf(const std::string& csv, const JobConfig& config = {}) {
    const StatusOr<std::string> text = DraftJob(folder_.Write("my data.csv", csv), config, stop_);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  static JobConfig Parsed(const std::string& text) {
    JobConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
    return config;
  }

  ScratchFolder folder_;
  std::atomic<bool> stop_ = false;
};

std::vector<std::string> Items(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

// A column of each type.
std::string Table(char delimiter, char decimal) {
  std::string text = "no,size,paid,at,city,user_id,note,same,late\n";
  for (int i = 0; i < 3000; ++i) {
    const std::string n = std::to_string(i * 7919 % 10007);
    text += std::to_string(i) + "," + n + "\1" + "5," + (i % 3 == 0 ? "yes" : "no") + ",2013-0" +
            std::to_string(1 + i % 9) + "-01T00:00:00Z," + (i % 2 == 0 ? "Ulm" : "Bonn") + "," +
            std::to_string(i * 7919 % 1501) + ",\"it was, " + n + ", too late\",x," +
            (i % 5 == 0 ? "1" : "0") + "\n";
  }
  bool quoted = false;
  for (char& c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) c = delimiter;
    if (c == '\1') c = decimal;
  }
  return text;
}

TEST_F(JobDraft, HasAFieldForEachTypeOfColumn) {
  const JobConfig config = Parsed(TextOf(Table(',', '.')));
  const FeatureSpec& spec = config.features();
  EXPECT_EQ(config.name(), "my-data");
  EXPECT_THAT(Items(spec.numeric()), ElementsAre("size", "late"));
  EXPECT_THAT(Items(spec.booleans()), ElementsAre("paid"));
  EXPECT_THAT(Items(spec.times()), ElementsAre("at"));
  EXPECT_THAT(Items(spec.categorical()), ElementsAre("city"));
  EXPECT_THAT(Items(spec.ids()), ElementsAre("user_id"));
  EXPECT_THAT(Items(spec.text()), ElementsAre("note"));
  EXPECT_THAT(config.producer().input(), HasSubstr("my data.csv"));
  EXPECT_FALSE(config.has_csv());
  EXPECT_FALSE(spec.has_label());
}

TEST_F(JobDraft, IsCompleteOnceAnyOfItsColumnsIsTheLabel) {
  JobConfig config = Parsed(TextOf(Table(',', '.')));
  for (const char* label : {"late", "city", "paid", "size", "at", "user_id", "note"}) {
    config.mutable_features()->set_label(label);
    ASSERT_TRUE(config.producer().label_may_be_listed());
    const FeatureSpec spec = CompleteSpec(WithoutLabel(config.features()));
    EXPECT_TRUE(ValidateColumns(spec).ok()) << label << ValidateColumns(spec);
  }
}

TEST_F(JobDraft, ListsWhatMayBeTheLabelAndWhatIsLeftOut) {
  const std::string text = TextOf(Table(',', '.'));
  EXPECT_THAT(text, AllOf(HasSubstr("# label: \"late\"  # classes: \"0\" 80 %, \"1\" 20 %"),
                          HasSubstr("# label: \"size\" regression: true  # a number: "),
                          HasSubstr("#   \"no\": key, "), HasSubstr("#   \"same\": constant")));
  EXPECT_LT(text.find("\"late\""), text.find("\"city\"")) << "the last column first";
}

TEST_F(JobDraft, OfALabelThatIsNamedIsComplete) {
  JobConfig config;
  config.mutable_features()->set_label("late");
  JobConfig draft = Parsed(TextOf(Table(',', '.'), config));
  EXPECT_EQ(draft.features().label(), "late");
  EXPECT_FALSE(draft.features().regression());
  EXPECT_THAT(Items(draft.features().numeric()), ElementsAre("size"));
  config.mutable_features()->set_label("size");
  draft = Parsed(TextOf(Table(',', '.'), config));
  EXPECT_TRUE(draft.features().regression());
  config.mutable_features()->set_label("weight");
  EXPECT_TRUE(
      absl::IsNotFound(DraftJob(folder_.Write("x.csv", Table(',', '.')), config, stop_).status()));
}

TEST_F(JobDraft, SaysWhatWasFoundInTheFile) {
  const JobConfig config = Parsed(TextOf(Table(';', ',')));
  EXPECT_EQ(config.csv().delimiter(), ";");
  EXPECT_TRUE(config.features().decimal_comma());
  EXPECT_THAT(Items(config.features().numeric()), ElementsAre("size", "late"));
  const JobConfig latin1 =
      Parsed(TextOf("stra\xDF"
                    "e,n\nweg,1\nallee,2\nweg,3\n"));
  EXPECT_EQ(latin1.csv().encoding(), CsvFormat::LATIN1);
  EXPECT_THAT(Items(latin1.features().categorical()), ElementsAre("straße"));
}

TEST_F(JobDraft, AFewDamagedCellsMakeNoLatin1OfAFileInUtf8) {
  const std::string csv = "city,n\nKöln,1\nCelle,2\nKöln,3\nBr\xFF,4\n";
  const JobConfig config = Parsed(TextOf(csv));
  EXPECT_FALSE(config.has_csv());
  EXPECT_TRUE(Parsed(TextOf(csv + "F\xFCrth,5\nF\xFCrth,6\n")).has_csv());
}

TEST_F(JobDraft, NamesColumnsThatNeedQuotes) {
  const JobConfig config = Parsed(TextOf("\"a*\"\"b\"\"\",\"c\\d\"\nx,1\ny,2\nx,3\n"));
  EXPECT_THAT(Items(config.features().categorical()), ElementsAre("\"a*\"\"b\"\"\""));
  EXPECT_THAT(Items(config.features().numeric()), ElementsAre("c\\d"));
}

TEST_F(JobDraft, TakesWordsAmongNumbersForMissing) {
  std::string csv = "n,c\n";
  for (int i = 0; i < 100; ++i) csv += (i == 7 ? "unknown" : std::to_string(i * i)) + ",a\n";
  const JobConfig config = Parsed(TextOf(csv + "1,b\n"));
  EXPECT_THAT(Items(config.features().missing_tokens()), testing::IsSupersetOf({"unknown", "NA"}));
}

TEST_F(JobDraft, OfAFileThatNobodyCanUseIsAnError) {
  const auto error = [&](const std::string& csv) {
    return std::string(DraftJob(folder_.Write("x.csv", csv), {}, stop_).status().message());
  };
  EXPECT_THAT(error("a,b\n"), HasSubstr("no rows"));
  EXPECT_THAT(
      error("a,b\n1\n"),
      AllOf(HasSubstr("all rows are malformed; the first: line 2: 1 fields"),
            HasSubstr("; if commas do not separate its fields, name what does by --delim")));
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  EXPECT_THAT(TextOf("a,b\n1\n1,2\n2,3\n"), HasSubstr("# 1 more are malformed"));
}

}  // namespace
}  // namespace millrace
