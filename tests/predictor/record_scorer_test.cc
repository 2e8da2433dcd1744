#include "predictor/record_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kafka/options.h"
#include "tests/exports/small_models.h"
#include "tests/formats/avro_bytes.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Scored = RecordScorer::Scored;

constexpr std::string_view kRow = R"({"a": 1.5, "b": null, "c": "x", "u": "7", "v": "8"})";

class RecordScorerTest : public ::testing::Test {
 protected:
  RecordScorerTest()
      : model_(std::make_shared<const ModelScorer>(
            RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true), 1))) {
    Open({});
  }

  void Open(RecordScorer::Options options) {
    auto scorer = RecordScorer::Create(model_, std::move(options));
    ASSERT_TRUE(scorer.ok()) << scorer.status();
    scorer_ = std::make_unique<RecordScorer>(*std::move(scorer));
  }

  RecordScorer::Options Avro(SourceFormat::Options options) {
    options.kind = SourceFormat::Kind::kAvro;
    options.registry.stop = &stop_;
    auto format = SourceFormat::Create(JobConfig(), options, [](const std::string&) {});
    EXPECT_TRUE(format.ok()) << format.status();
    return {.format = RecordScorer::Format::kAvro,
            .avro = std::make_shared<const SourceFormat>(*std::move(format))};
  }

  // The answer to one record.
  Scored ScoreOne(const ConsumedRecord& record) {
    EXPECT_TRUE(scorer_->Add(record).ok());
    const std::span<const Scored> scored = scorer_->Score();
    EXPECT_EQ(scored.size(), 1u);
    Scored answer = scored[0];
    scorer_->Clear();
    return answer;
  }
  json ScoreValue(std::string_view value) {
    return json::parse(ScoreOne({.partition = 2, .offset = 41, .value = value}).value.value());
  }

  // What PredictionText writes of a row of these cells.
  json Expected(const std::vector<std::string_view>& cells) {
    RowScorer rows = RowScorer::Create(model_).value();
    EXPECT_TRUE(rows.Add(cells).ok());
    std::string text;
    PredictionText(model_->model().description.features()).AppendJson(rows.Score(), &text);
    return json::parse(text);
  }

  std::shared_ptr<const ModelScorer> model_;
  std::unique_ptr<RecordScorer> scorer_;
  const std::atomic<bool> stop_ = false;
};

TEST_F(RecordScorerTest, APredictionIsThatOfTheRowAndNamesItsSource) {
  json answer = ScoreValue(kRow);
  EXPECT_EQ(answer["source"], json::parse(R"({"partition": 2, "offset": 41})"));
  answer.erase("source");
  EXPECT_EQ(answer, Expected({"1.5", "", "x", "7", "8"}));
}

TEST_F(RecordScorerTest, MembersThatAreNotThereAreEmptyCells) {
  json answer = ScoreValue(R"({"a": 2, "late": "no"})");
  answer.erase("source");
  EXPECT_EQ(answer, Expected({"2", "", "", "", ""}));
  EXPECT_THAT(scorer_->EmptyColumns(), ElementsAre("b", "c", "u", "v"));
}

TEST_F(RecordScorerTest, KeyHeadersAndTimeAreThoseOfTheRecord) {
  const std::vector<RecordHeader> headers = {{"from", "shop"}, {"null", {}}};
  const Scored scored =
      ScoreOne({.timestamp_ms = 99, .key = "k", .value = kRow, .headers = headers});
  EXPECT_EQ(scored.timestamp_ms, 99);
  EXPECT_EQ(scored.key, "k");
  ASSERT_EQ(scored.headers.size(), 2u);
  EXPECT_EQ(scored.headers[0].name, "from");
  EXPECT_EQ(scored.headers[0].value, "shop");
  EXPECT_FALSE(scored.headers[1].value.has_value());
  EXPECT_FALSE(ScoreOne({.value = kRow}).key.has_value());
}

TEST_F(RecordScorerTest, ATombstoneIsAnsweredByOne) {
  const Scored scored = ScoreOne({.key = "k"});
  EXPECT_EQ(scored.kind, Scored::Kind::kTombstone);
  EXPECT_EQ(scored.key, "k");
  EXPECT_FALSE(scored.value.has_value());
}

TEST_F(RecordScorerTest, WhatHoldsNoRowIsAnsweredByTheReasonInItsPlace) {
  ASSERT_TRUE(scorer_->Add({.offset = 0, .value = kRow}).ok());
  ASSERT_TRUE(scorer_->Add({.offset = 1, .value = R"({"a": "far"})"}).ok());
  ASSERT_TRUE(scorer_->Add({.offset = 2, .value = "{\xff"}).ok());
  ASSERT_TRUE(scorer_->Add({.offset = 3, .value = R"([{"a": 1}, {"a": 2}])"}).ok());
  ASSERT_TRUE(scorer_->Add({.offset = 4, .value = kRow}).ok());
  std::vector<json> answers;
  for (const Scored& each : scorer_->Score()) answers.push_back(json::parse(*each.value));
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers[0]["probabilities"], answers[4]["probabilities"]);
  EXPECT_THAT(answers[1]["error"].get<std::string>(), HasSubstr("far"));
  EXPECT_THAT(answers[2]["error"].get<std::string>(), HasSubstr("malformed JSON"));
  EXPECT_THAT(answers[3]["error"].get<std::string>(), HasSubstr("a record has one row"));
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(answers[i]["source"]["offset"], i);
  EXPECT_EQ(scorer_->rows(), 2u);
}

TEST_F(RecordScorerTest, TheRowStandsBesideItsPredictionIfItIsWanted) {
  Open({.with_row = true});
  const Scored scored = ScoreOne({.value = "{\"a\": 1.50,\r\n \"id\": [\"7\"]}\n"});
  EXPECT_THAT(*scored.value, HasSubstr(R"("row":{"a": 1.50,   "id": ["7"]} })"));
  EXPECT_EQ(json::parse(*scored.value)["row"]["id"][0], "7");
  // It would make the whole value no JSON.
  EXPECT_THAT(ScoreValue(R"({"a": 1, "id": tru})")["error"].get<std::string>(),
              HasSubstr("malformed JSON near byte 18, in a member that the model does not read; it "
                        "begins with: {\"a\": 1, \"id\": tru}"));
  json after = ScoreValue(kRow);
  EXPECT_EQ(after["row"], json::parse(kRow));
}

TEST_F(RecordScorerTest, TheRowBesideItsPredictionMayHaveAnythingThatJsonAllows) {
  Open({.with_row = true});
  for (const std::string& row :
       {std::string(R"({"a": 1, "big": 1e400, "half": "\ud800", "same": 1, "same": 2})"),
        R"({"a": 1, "deep": )" + std::string(5000, '[') + std::string(5000, ']') + "}"}) {
    const Scored scored = ScoreOne({.value = row});
    EXPECT_EQ(scored.kind, Scored::Kind::kPrediction) << *scored.value;
    EXPECT_THAT(*scored.value, HasSubstr(",\"row\":" + row + "}"));
  }
}

TEST_F(RecordScorerTest, TheRowBesideItsPredictionMayHaveTheHeaderOfASchemaRegistry) {
  Open({.with_row = true});
  const std::string headed = std::string("\0\0\0\0\7", 5) + std::string(kRow);
  EXPECT_EQ(ScoreValue(headed)["row"], json::parse(kRow));
}

TEST_F(RecordScorerTest, ANewerModelOfTheSameFeaturesGoesOnCounting) {
  ScoreValue(R"({"a": 1})");
  const auto newer = std::make_shared<const ModelScorer>(
      RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true), 2));
  ASSERT_TRUE(scorer_->Use(newer));
  json answer = ScoreValue(kRow);
  answer.erase("source");
  const json before = Expected({"1.5", "", "x", "7", "8"});
  EXPECT_NE(answer, before);
  model_ = newer;
  EXPECT_EQ(answer, Expected({"1.5", "", "x", "7", "8"}));
  EXPECT_EQ(scorer_->rows(), 2u);
  EXPECT_THAT(scorer_->EmptyColumns(), ElementsAre("b"));
  EXPECT_FALSE(scorer_->Use(std::make_shared<const ModelScorer>(
      RandomModel(DescriptionFor(ModelShape::NETWORK, 4, true), 1))));
}

TEST_F(RecordScorerTest, IsFullOfLargeRecordsEarlier) {
  const std::string large = R"({"a": 1, "c": ")" + std::string(1'000'000, 'x') + "\"}";
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(scorer_->is_full());
    ASSERT_TRUE(scorer_->Add({.value = large}).ok());
  }
  ASSERT_TRUE(scorer_->Add({.value = large}).ok());
  EXPECT_TRUE(scorer_->is_full());
  scorer_->Score();
  scorer_->Clear();
  EXPECT_FALSE(scorer_->is_full());
}

TEST_F(RecordScorerTest, LinesOfCsvHaveTheLabelOrNot) {
  for (const bool has_label : {false, true}) {
    RecordScorer::Options options = {.format = RecordScorer::Format::kCsv,
                                     .columns = {"v", "u", "c", "b", "a", "id"},
                                     .delimiter = ';',
                                     .with_row = true};
    if (has_label) options.columns[5] = "y";
    Open(options);
    json answer = ScoreValue("8;7;x;;1.5;\"class \"\"0\"\n");
    EXPECT_EQ(answer["row"][has_label ? "y" : "id"], "class \"0");
    EXPECT_EQ(answer["row"]["a"], "1.5");
    answer.erase("source");
    answer.erase("row");
    EXPECT_EQ(answer, Expected({"1.5", "", "x", "7", "8"}));
  }
}

TEST_F(RecordScorerTest, AvroIsReadByTheSchemaOfAFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "schema") << R"({"type": "record", "name": "R", "fields": [
      {"name": "c", "type": "string"}, {"name": "a", "type": "double"},
      {"name": "v", "type": "string"}, {"name": "u", "type": "long"}]})";
  SourceFormat::Options options;
  options.avro_schema_file = folder / "schema";
  Open(Avro(options));
  json answer = ScoreValue(AvroText("x") + AvroFloat(1.5) + AvroText("8") + AvroLong(7));
  answer.erase("source");
  EXPECT_EQ(answer, Expected({"1.5", "", "x", "7", "8"}));
  EXPECT_THAT(ScoreValue(AvroText("x"))["error"].get<std::string>(), HasSubstr("malformed Avro"));
}

TEST_F(RecordScorerTest, RowsWithoutAnyColumnAreCountedWithWhatTheFirstHasInstead) {
  ScoreValue(R"({"a": 1})");
  ScoreValue(R"({"y": "x", "km": {"far": 1}})");
  ScoreValue(R"({"b": null})");
  ScoreValue("{");
  EXPECT_EQ(scorer_->empty_rows().rows, 3u);
  EXPECT_EQ(scorer_->empty_rows().empty, 2u);
  EXPECT_THAT(scorer_->empty_rows().members, ElementsAre("km.far", "y"));
  const TemporaryFolder folder;
  std::ofstream(folder / "schema") << R"({"type": "record", "name": "R", "fields": [
      {"name": "km", "type": "string"}]})";
  SourceFormat::Options options;
  options.avro_schema_file = folder / "schema";
  Open(Avro(options));
  ScoreValue(AvroText("x"));
  EXPECT_THAT(scorer_->empty_rows().members, ElementsAre("km"));
}

TEST_F(RecordScorerTest, ARecordWhoseSchemaNobodyTellsIsNotAdded) {
  SourceFormat::Options options;
  options.registry.url = "http://127.0.0.1:1";
  Open(Avro(options));
  const std::string headed("\0\0\0\0\1x", 6);
  EXPECT_TRUE(absl::IsUnavailable(scorer_->Add({.value = headed})));
  EXPECT_EQ(scorer_->records(), 0u);
  EXPECT_THAT(ScoreValue("x")["error"].get<std::string>(), HasSubstr("registry's header"));
}

TEST_F(RecordScorerTest, ColumnsThatTheModelNeedsMustBeNamed) {
  const Status status =
      RecordScorer::Create(model_, {.format = RecordScorer::Format::kCsv, .columns = {"a", "b"}})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--columns has no column \"c\""));
}

TEST_F(RecordScorerTest, AnAnswerThatIsTooLargeForARecordSaysSo) {
  const std::string key(kMaxRecordBytes, 'k');
  const Scored scored = ScoreOne({.partition = 1, .offset = 3, .key = key, .value = kRow});
  EXPECT_EQ(scored.kind, Scored::Kind::kError);
  EXPECT_FALSE(scored.key.has_value());
  EXPECT_THAT(*scored.value, HasSubstr("more than 1000000"));
  EXPECT_EQ(json::parse(*scored.value)["source"]["offset"], 3);
  // A compacted topic takes no record without a key.
  const std::vector<RecordHeader> headers = {{"large", key}};
  EXPECT_EQ(ScoreOne({.key = "k", .value = kRow, .headers = headers}).key, "k");
}

}  // namespace
}  // namespace millrace
