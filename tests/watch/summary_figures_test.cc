// What a summary says of the figures of a model: of its classes, of numbers, and of drifts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/metrics/points.h"
#include "tests/watch/summary_text.h"
#include "watch/summary.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Of three classes, the last of which nobody is taken for.
Figures OfThreeClasses() {
  Figures figures = MakeFigures(100, 0.7, 0.5);
  figures.set_has_auc(false);
  const uint64_t matrix[3][3] = {{40, 10, 0}, {0, 30, 0}, {15, 5, 0}};
  for (uint32_t label = 0; label < 3; ++label) {
    figures.add_class_rows(matrix[label][0] + matrix[label][1] + matrix[label][2]);
    figures.add_class_predicted(matrix[0][label] + matrix[1][label] + matrix[2][label]);
    figures.add_class_correct(matrix[label][label]);
    for (uint32_t predicted = 0; predicted < 3; ++predicted) {
      if (matrix[label][predicted] == 0) continue;
      figures.add_cell(label * 3 + predicted);
      figures.add_cell_count(matrix[label][predicted]);
    }
  }
  figures.set_calibration_error(0.0625);
  figures.add_reliability_bin(9);
  figures.add_reliability_rows(100);
  figures.add_reliability_confidence(0.625);
  figures.add_reliability_accuracy(0.7);
  return figures;
}

JobProgress JobOfThreeClasses() {
  MetricPoint point = ServerAt(1'000, 5);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  *server.mutable_progressive() = OfThreeClasses();
  *server.mutable_window() = OfThreeClasses();
  server.set_window_end(90);
  for (const char* name : {"ham", "spam"}) server.add_class_name(name);
  JobProgress job;
  job.Fold(point);
  return job;
}

TEST(SummaryJson, TellsOfEachClassAndBinAndOfTheWindow) {
  const Json json = Json::parse(SummaryJson(JobOfThreeClasses(), "x", "localhost:9092"));
  const Json& part = json["progressive"];
  ASSERT_EQ(part["classes"].size(), 3u);
  EXPECT_EQ(part["classes"][0]["name"], "ham");
  EXPECT_EQ(part["classes"][0]["rows"], 50);
  EXPECT_EQ(part["classes"][0]["predicted"], 55);
  EXPECT_EQ(part["classes"][0]["precision"], 0.727273);
  EXPECT_EQ(part["classes"][0]["recall"], 0.8);
  EXPECT_EQ(part["classes"][0]["f1"], 0.761905);
  EXPECT_EQ(part["classes"][2]["name"], "class 2") << "nobody has said its name";
  EXPECT_TRUE(part["classes"][2]["precision"].is_null());
  EXPECT_EQ(part["classes"][2]["recall"], 0.0);
  EXPECT_EQ(part["confusion"], Json::parse("[[0,0,40],[0,1,10],[1,1,30],[2,0,15],[2,1,5]]"));
  EXPECT_EQ(part["calibration_error"], 0.0625);
  EXPECT_EQ(part["reliability"][0],
            Json::parse(R"({"from": 0.6, "to": 0.666667, "rows": 100, "confidence": 0.625,
                            "accuracy": 0.7})"));
  EXPECT_EQ(json["window"]["rows"], 100);
  EXPECT_EQ(json["window"]["rows_end"], 90);
}

TEST(SummaryJson, HasTheLastDriftIfThereWasOne) {
  JobProgress job = JobOfThreeClasses();
  const auto json = [&] { return Json::parse(SummaryJson(job, "x", "localhost:9092")); };
  EXPECT_FALSE(json().contains("drift"));
  MetricPoint point = ServerAt(1'100, 6);
  Drift& drift = *point.mutable_server()->mutable_drift();
  drift.set_count(2);
  drift.set_row(70);
  drift.set_found_at(80);
  drift.set_clock(5);
  drift.set_before(0.25);
  drift.set_after(0.5);
  job.Fold(point);
  const Json is = json()["drift"];
  EXPECT_EQ(is["count"], 2);
  EXPECT_EQ(is["row"], 70);
  EXPECT_EQ(is["found_at"], 80);
  EXPECT_EQ(is["clock"], 5);
  EXPECT_EQ(is["loss_before"], 0.25);
  EXPECT_EQ(is["loss_after"], 0.5);
  EXPECT_THAT(std::string(is["text"]), HasSubstr("the stream has changed (change 2 so far)"));
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 200))),
              HasSubstr("Note: the stream has changed (change 2 so far): the log loss rose"));
}

TEST(SummaryTable, TellsOfEachClassAndWhoIsTakenForWhom) {
  const std::string text = Text(SummaryTable(JobOfThreeClasses(), TableOf("x", 80)));
  EXPECT_THAT(text, AllOf(HasSubstr("last window"), HasSubstr("by class, progressive:"),
                          HasSubstr("ham         0.7273  0.8000  0.7619         50"),
                          HasSubstr("class 2          -  0.0000  0.0000         20"),
                          HasSubstr("         ham  spam  class 2\n"),
                          HasSubstr("class 2   15     5        0\n")));
  const std::string narrow = Text(SummaryTable(JobOfThreeClasses(), TableOf("x", 27)));
  EXPECT_THAT(narrow, AllOf(HasSubstr("most often taken"), HasSubstr("15 rows of class 2"),
                            Not(HasSubstr("ham  spam"))));
}

TEST(SummaryTable, OfManyClassesSaysWhereTheyAre) {
  MetricPoint point = ServerAt(1'000, 5);
  for (int i = 0; i < 21; ++i) {
    Figures& figures = *point.mutable_server()->mutable_progressive();
    figures.add_class_rows(10);
    figures.add_class_predicted(10);
    figures.add_class_correct(10);
  }
  JobProgress job;
  job.Fold(point);
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 90))),
              AllOf(HasSubstr("21 classes: precision, recall and F1 of each are in the JSON"),
                    Not(HasSubstr("class 20"))));
}

TEST(Summary, SaysInWordsThatAModelIsWorseThanNothing) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 5));
  EXPECT_TRUE(
      Json::parse(SummaryJson(job, "x", "localhost:9092")).at("worse_than_prior").is_null());
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 80))), Not(HasSubstr("Warning")));
  MetricPoint point = ServerAt(2'000, 10);
  point.mutable_server()->mutable_progressive()->set_log_loss(0.75);
  job.Fold(point);
  const Json json = Json::parse(SummaryJson(job, "x", "localhost:9092"));
  EXPECT_THAT(json["worse_than_prior"].get<std::string>(),
              AllOf(HasSubstr("after 4000 rows"), HasSubstr("--learning-rate")));
  std::string text;
  for (const std::string& line : SummaryTable(job, TableOf("x", 60))) {
    EXPECT_LE(ColumnsOf(line), 60u);
    text += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  EXPECT_THAT(text, HasSubstr("Warning: " + json["worse_than_prior"].get<std::string>() + "."));
}

TEST(Summary, OfARegressionHasItsOwnFigures) {
  MetricPoint point = ServerAt(1'000, 5);
  Figures figures;
  figures.set_rows(2'000);
  figures.set_has_rmse(true);
  figures.set_rmse(0.875);
  figures.set_prior_rmse(1.25);
  figures.set_mae(0.5);
  *point.mutable_server()->mutable_progressive() = figures;
  JobProgress job;
  job.Fold(point);
  const Json part = Json::parse(SummaryJson(job, "x", "localhost:9092"))["progressive"];
  EXPECT_EQ(part["mae"], 0.5);
  EXPECT_TRUE(part["r2"].is_null());
  EXPECT_EQ(part.size(), 5u) << "no figures of classes";
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 80))),
              AllOf(HasSubstr("MAE"), HasSubstr("0.5000"), HasSubstr("R2"), HasSubstr(" mean")));
}

}  // namespace
}  // namespace millrace
