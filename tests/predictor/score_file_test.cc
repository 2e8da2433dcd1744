#include "predictor/score_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "formats/csv_file.h"
#include "predictor/prediction_text.h"
#include "predictor/row_scorer.h"
#include "tests/exports/small_models.h"
#include "tests/formats/memory_rejects.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ScoreFileTest : public ::testing::Test {
 protected:
  StatusOr<FileScores> Score(const std::string& text, size_t classes = 2,
                             CsvFile::Options options = {}) {
    std::ofstream(folder_ / "in.csv", std::ios::binary) << text;
    model_ = std::make_shared<const ModelScorer>(
        RandomModel(DescriptionFor(ModelShape::LINEAR, classes, false)));
    return ScoreFile(model_, folder_ / "in.csv",
                     {.csv = options, .challenger = challenger_, .contributions = contributions_},
                     folder_ / "out.csv", rejects_, [](const CsvFile&, const FileScores&) {});
  }

  std::string Output() const {
    std::ifstream file(folder_ / "out.csv", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Of cells without quotes.
  std::vector<std::vector<std::string>> Table() const {
    std::vector<std::vector<std::string>> table;
    std::istringstream text(Output());
    for (std::string line; std::getline(text, line);) {
      std::istringstream cells(line);
      table.emplace_back();
      for (std::string cell; std::getline(cells, cell, ',');) table.back().push_back(cell);
    }
    return table;
  }

  // The cells that a row of these gets.
  std::string Cells(std::vector<std::string_view> cells, char delimiter) const {
    auto rows = RowScorer::Create(model_);
    EXPECT_TRUE(rows.ok() && rows->Add(cells).ok());
    std::string text;
    PredictionText(model_->model().description.features())
        .AppendCells(rows->Score(), delimiter, &text);
    return text;
  }

  TemporaryFolder folder_;
  std::shared_ptr<const ModelScorer> model_;
  std::shared_ptr<const ModelScorer> challenger_;
  bool contributions_ = false;
  MemoryRejects rejects_;
};

TEST_F(ScoreFileTest, AddsColumnsBehindTheRowsAsTheyWere) {
  const auto scores = Score("c,other,a,b\r\n x,\"1,\"\"2\"\"\n3\",1.5,2\r\n\"y\",,,-1\r\n");
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 2u);
  EXPECT_EQ(scores->labelled.rows, 0u);
  EXPECT_EQ(Output(),
            "c,other,a,b,predicted_y,probability_class 0,probability_class 1\n"
            " x,\"1,\"\"2\"\"\n3\",1.5,2" +
                Cells({"1.5", "2", "x"}, ',') +
                "\n"
                "\"y\",,,-1" +
                Cells({"", "-1", "y"}, ',') + "\n");
}

TEST_F(ScoreFileTest, WritesTheDelimiterOfTheInput) {
  const auto scores = Score("a;b;c\n1;2;x\n", 0);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(Output(), "a;b;c;predicted_y\n1;2;x" + Cells({"1", "2", "x"}, ';') + "\n");
}

TEST_F(ScoreFileTest, CountsTheRowsWhoseLabelIsKnown) {
  const auto scores = Score("a,b,c,y\n1,2,x,class 1\n1,2,x,\n1,2,x,other\n1,2,x,class 0\n");
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 4u);
  EXPECT_EQ(scores->labelled.rows, 2u);
  EXPECT_GT(scores->labelled.log_loss, 0);
  EXPECT_EQ(scores->unknown_labels, 1u);
  EXPECT_THAT(scores->first_unknown_label, HasSubstr("line 4: "));
}

TEST_F(ScoreFileTest, ComparesAChallengerByTheSameRows) {
  ModelDescription other = DescriptionFor(ModelShape::NETWORK, 2, true);
  other.mutable_features()->mutable_classes()->SwapElements(0, 1);
  challenger_ = std::make_shared<const ModelScorer>(RandomModel(other, 2));
  std::string text = "a,b,c,u,v,y\n";
  double expected_loss = 0;
  auto rows = RowScorer::Create(challenger_);
  ASSERT_TRUE(rows.ok());
  for (int i = 0; i < 600; ++i) {
    const std::string a = std::to_string(i % 7);
    text += a + ",2,x,7," + (i == 300 ? "8,\n" : i % 2 == 0 ? "8,class 1\n" : "8,class 0\n");
    if (i == 300) continue;
    rows->Clear();
    ASSERT_TRUE(rows->Add(std::vector<std::string_view>{a, "2", "x", "7", "8"}).ok());
    // Its first class is "class 1".
    expected_loss -= std::log(rows->Score()[i % 2 == 0 ? 0 : 1]);
  }
  const auto scores = Score(text);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 600u);
  EXPECT_EQ(scores->labelled.rows, 599u);
  EXPECT_EQ(scores->challenger.rows, 599u);
  EXPECT_NEAR(scores->challenger.log_loss, expected_loss, 1e-3);
  EXPECT_EQ(scores->not_compared, 0u);
  const std::string compared = Output();
  const EvaluationSums together = scores->labelled;
  challenger_ = nullptr;
  const auto alone = Score(text);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->labelled, together);
  EXPECT_EQ(Output(), compared);
}

TEST_F(ScoreFileTest, CountsNoRowOfAChallengerThatCannotUseIt) {
  ModelDescription other = DescriptionFor(ModelShape::LINEAR, 2, false);
  other.mutable_features()->set_missing(FeatureSpec::REJECT);
  challenger_ = std::make_shared<const ModelScorer>(RandomModel(other));
  const auto scores = Score("a,b,c,y\n1,2,x,class 1\n,2,x,class 1\n3,2,x,class 0\n,2,x,\n");
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 4u);
  EXPECT_EQ(scores->labelled.rows, 2u);
  EXPECT_EQ(scores->challenger.rows, 2u);
  EXPECT_EQ(scores->not_compared, 1u);
  EXPECT_THAT(scores->first_not_compared, HasSubstr("line 3: "));
}

TEST_F(ScoreFileTest, ComparesNoChallengerWithoutLabelsOrItsColumns) {
  challenger_ = std::make_shared<const ModelScorer>(
      RandomModel(DescriptionFor(ModelShape::NETWORK, 2, true)));
  const Status unlabelled = Score("a,b,c,u,v\n1,2,x,7,8\n").status();
  EXPECT_THAT(std::string(unlabelled.message()), HasSubstr("has no column \"y\", the label"));
  const Status missing = Score("a,b,c,y\n1,2,x,class 1\n").status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("--challenger: "));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("has no column \"u\""));
  const Status other = Score("a,b,c,y\n1,2,x,3\n", 0).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("it predicts a class, and no number"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.csv"));
}

TEST_F(ScoreFileTest, AddsContributionsThatAddUpIfTheyAreWanted) {
  contributions_ = true;
  const auto scores = Score("a,y,b,c\n1.5,class 0,2,x\nbad,,1,x\n,,-1,y\n");
  ASSERT_TRUE(scores.ok()) << scores.status();
  const std::vector<std::vector<std::string>> table = Table();
  ASSERT_EQ(table.size(), 3u);
  EXPECT_THAT(table[0], ElementsAre("a", "y", "b", "c", "predicted_y", "probability_class 0",
                                    "probability_class 1", "offset_y", "contribution_a",
                                    "contribution_b", "contribution_c"));
  for (size_t i = 1; i < table.size(); ++i) {
    double log_odds = 0;
    for (size_t k = 7; k < 11; ++k) log_odds += std::stod(table[i][k]);
    EXPECT_NEAR(log_odds, std::log(std::stod(table[i][6]) / std::stod(table[i][5])), 1e-4);
  }
  EXPECT_NE(table[1][8], table[2][8]);
}

TEST_F(ScoreFileTest, AddsContributionsOfEachOfManyClasses) {
  contributions_ = true;
  const auto scores = Score("a,b,c\n1.5,2,x\n", 3);
  ASSERT_TRUE(scores.ok()) << scores.status();
  const std::vector<std::vector<std::string>> table = Table();
  ASSERT_EQ(table[1].size(), 3 + 1 + 3 + 4 * 3u);
  EXPECT_EQ(table[0][7], "offset_y:class 0");
  EXPECT_EQ(table[0][18], "contribution_c:class 2");
  // Their sums are scores of a softmax.
  double sums[3] = {0, 0, 0};
  for (size_t k = 0; k < 12; ++k) sums[k % 3] += std::stod(table[1][7 + k]);
  EXPECT_NEAR(sums[2] - sums[0], std::log(std::stod(table[1][6]) / std::stod(table[1][4])), 1e-4);
  contributions_ = false;
  EXPECT_EQ(Score("a,b,c,offset_y\n1.5,2,x,\n").value().rows, 1u);
  contributions_ = true;
  EXPECT_THAT(std::string(Score("a,b,c,offset_y\n1.5,2,x,\n").status().message()),
              HasSubstr("'offset_y' already"));
}

TEST_F(ScoreFileTest, SetsRowsAsideThatCannotBeUsed) {
  const auto scores = Score("a,b,c\n1,2,x\none,2,x\n1,2\n\"1\"2,2,x\n1,2,z\n");
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 2u);
  EXPECT_EQ(scores->rejected, 3u);
  EXPECT_THAT(scores->first_reject, HasSubstr("line 3: "));
  ASSERT_EQ(rejects_.rows.size(), 3u);
  EXPECT_EQ(rejects_.rows[1].raw, "1,2");
}

TEST_F(ScoreFileTest, LeavesNoOutputOfWhichNoRowCanBeUsed) {
  EXPECT_THAT(std::string(Score("a,b,c\n1,2\n").status().message()),
              HasSubstr("the first: line 2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.csv"));
  const auto nothing = Score("a,b,c\n");
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->rows, 0u);
  EXPECT_THAT(Output(), HasSubstr("predicted_y"));
}

TEST_F(ScoreFileTest, ScoresMoreRowsThanItHolds) {
  std::string text = "a,b,c\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i % 7) + ",2,x\n";
  const auto scores = Score(text);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->rows, 1000u);
  const std::string output = Output();
  EXPECT_EQ(std::ranges::count(output, '\n'), 1001);
  EXPECT_TRUE(
      output.ends_with("\n5,2,x" + Cells({"5", "2", "x"}, ',') + "\n"));  // 999 = 7 * 142 + 5
}

TEST_F(ScoreFileTest, NamesAColumnThatIsMissingOrWouldBeThereTwice) {
  EXPECT_THAT(std::string(Score("a,b\n1,2\n").status().message()),
              HasSubstr("has no column \"c\""));
  const auto twice = Score("a,b,c,predicted_y\n1,2,x,z\n");
  EXPECT_TRUE(absl::IsInvalidArgument(twice.status()));
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("'predicted_y' already"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.csv"));
}

TEST_F(ScoreFileTest, LeavesNoOutputWhenItIsStopped) {
  const std::atomic<bool> stop = true;
  CsvFile::Options options;
  options.stop = &stop;
  std::string text = "a,b,c\n";
  for (int i = 0; i < 1000; ++i) text += "1,2,x\n";
  EXPECT_TRUE(absl::IsCancelled(Score(text, 2, options).status()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.csv"));
}

}  // namespace
}  // namespace millrace
