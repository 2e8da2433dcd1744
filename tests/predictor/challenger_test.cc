#include "predictor/challenger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "predictor/prediction_service.h"
#include "predictor/row_scorer.h"
#include "tests/exports/small_models.h"
#include "tests/predictor/given_models.h"

namespace millrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kNdjson[] = "application/x-ndjson";

// Of the sums what the tests look at.
std::string SumsText(const EvaluationSums& sums, const FeatureSpec& features) {
  return json{{"rows", sums.rows},
              {"log_loss", sums.log_loss},
              {"absolute_error", sums.absolute_error},
              {"classes", features.classes_size()}}
      .dump();
}

// Requests to a service with a challenger. The model reads a, b and c; the challenger also u and v.
class ChallengerTest : public ::testing::Test {
 protected:
  static ExportedModel SomeModel(size_t classes = 2, unsigned seed = 1) {
    return RandomModel(DescriptionFor(ModelShape::LINEAR, classes, false), seed);
  }
  static ExportedModel OtherModel(size_t classes = 2, unsigned seed = 2) {
    return RandomModel(DescriptionFor(ModelShape::NETWORK, classes, true), seed);
  }

  void Start(ExportedModel model, ExportedModel challenger,
             size_t most_waiting_bytes = size_t{1} << 20) {
    models_.Give(std::move(model));
    challengers_.Give(std::move(challenger));
    auto made = Challenger::Create(
        models_, challengers_,
        {.id_column = "id", .most_waiting_bytes = most_waiting_bytes, .figures = SumsText});
    ASSERT_TRUE(made.ok()) << made.status();
    challenger_ = *std::move(made);
    service_ = std::make_unique<PredictionService>(
        models_, PredictionService::Options{.challenger = challenger_.get()});
  }

  Status WhyNot(ExportedModel model, ExportedModel challenger, std::string id_column = "id") {
    models_.Give(std::move(model));
    challengers_.Give(std::move(challenger));
    return Challenger::Create(models_, challengers_,
                              {.id_column = std::move(id_column), .figures = SumsText})
        .status();
  }

  HttpResponse Post(std::string_view path, std::string_view body, std::string_view type = "") {
    return service_->Answer({.method = "POST", .path = path, .content_type = type, .body = body});
  }
  json Predict(std::string_view body, std::string_view type = "") {
    const HttpResponse answer = Post("/predict", body, type);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return type.empty() ? json::parse(answer.body) : json();
  }
  json Label(std::string_view body, std::string_view type = "") {
    const HttpResponse answer = Post("/labels", body, type);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }
  json Figures() {
    const HttpResponse answer = service_->Answer({.method = "GET", .path = "/challenger"});
    EXPECT_EQ(answer.status, 200);
    return json::parse(answer.body);
  }

  static std::string RowText(const std::string& id, int a = 1) {
    return R"({"id":)" + id + R"(,"a":)" + std::to_string(a) +
           R"(,"b":null,"c":"x","u":7,"v":"8"})";
  }

  // What a model says of RowText(.., a).
  static std::vector<float> ScoresOf(const ModelSource& models, int a = 1) {
    auto rows = RowScorer::Create(models.model());
    EXPECT_TRUE(rows.ok()) << rows.status();
    const std::string number = std::to_string(a);
    const std::vector<std::string_view> cells = {number, "", "x", "7", "8"};
    EXPECT_TRUE(rows->Add(std::span(cells).first(rows->columns().size())).ok());
    const auto scores = rows->Score();
    return {scores.begin(), scores.end()};
  }

  GivenModels models_;
  GivenModels challengers_;
  std::unique_ptr<Challenger> challenger_;
  std::unique_ptr<PredictionService> service_;
};

TEST_F(ChallengerTest, IsComparedByTheLabelsThatComeLater) {
  Start(SomeModel(), OtherModel());
  EXPECT_TRUE(Figures()["figures"].is_null());
  Predict("[" + RowText("1", 1) + "," + RowText("2", 2) + "," + RowText("\"c\"", 3) + "]");
  EXPECT_EQ(Figures()["waiting"], 3);
  EXPECT_EQ(Label(R"([{"id": 2, "y": "class 1"}, {"id": "4", "y": "class 0"}])"),
            json::parse(R"({"labels": 1, "unknown": 1})"));
  EXPECT_EQ(Label(R"({"id": "c", "y": "class 0"})")["labels"], 1);
  const json told = Figures();
  EXPECT_EQ(told["labels"], 2);
  EXPECT_EQ(told["waiting"], 1);
  EXPECT_EQ(told["unknown_labels"], 1);
  EXPECT_EQ(told["not_compared"], 0);
  EXPECT_TRUE(told["not_compared_reason"].is_null());
  EXPECT_EQ(told["newer_challenger_error"], "the job has not begun");
  const auto expected = [](const ModelSource& of) {
    return -std::log(ScoresOf(of, 2)[1]) - std::log(ScoresOf(of, 3)[0]);
  };
  const json& figures = told["figures"];
  EXPECT_EQ(figures["model"]["rows"], 2);
  EXPECT_EQ(figures["challenger"]["rows"], 2);
  EXPECT_EQ(figures["challenger"]["classes"], 2);
  EXPECT_NEAR(figures["model"]["log_loss"].get<double>(), expected(models_), 1e-5);
  EXPECT_NEAR(figures["challenger"]["log_loss"].get<double>(), expected(challengers_), 1e-5);
}

TEST_F(ChallengerTest, ChangesNoAnswer) {
  Start(SomeModel(), OtherModel());
  const PredictionService alone(models_, {});
  std::string many = RowText("0");
  for (int i = 1; i < 600; ++i) many += "," + RowText(std::to_string(i), i);
  const std::vector<std::pair<std::string, const char*>> requests = {
      {RowText("1"), ""},
      {R"({"a":1,"b":2,"c":"x"})", ""},
      {R"({"a":1,"b":2,"c":"x","id":[],"u":{},"v":1,"v":2})", ""},
      {"[" + many + "]", ""},
      {R"([{"a":1,"b":2,"c":"x"},{}])", ""},
      {RowText("1") + "\n{}\n\n" + RowText("2") + "\nx\n", kNdjson}};
  for (const auto& [body, type] : requests) {
    const HttpResponse expected =
        alone.Answer({.method = "POST", .path = "/predict", .content_type = type, .body = body});
    const HttpResponse answer = Post("/predict", body, type);
    EXPECT_EQ(answer.status, expected.status) << body;
    EXPECT_EQ(answer.body, expected.body);
    EXPECT_EQ(answer.content_type, expected.content_type);
  }
}

TEST_F(ChallengerTest, MayHaveTheClassesInAnotherOrder) {
  ExportedModel other = SomeModel();
  other.description.mutable_features()->mutable_classes()->SwapElements(0, 1);
  Start(SomeModel(), std::move(other));
  Predict(RowText("1"));
  Label(R"({"id": 1, "y": "class 1"})");
  EXPECT_NEAR(Figures()["figures"]["challenger"]["log_loss"].get<double>(),
              -std::log(ScoresOf(challengers_)[0]), 1e-5);
}

TEST_F(ChallengerTest, OfNumbersIsComparedByErrors) {
  Start(SomeModel(0), OtherModel(0));
  Predict(RowText("1"));
  Label(R"({"id": 1, "y": 7.5})");
  const json figures = Figures()["figures"];
  EXPECT_NEAR(figures["model"]["absolute_error"].get<double>(),
              std::abs(ScoresOf(models_)[0] - 7.5f), 1e-4);
  EXPECT_NEAR(figures["challenger"]["absolute_error"].get<double>(),
              std::abs(ScoresOf(challengers_)[0] - 7.5f), 1e-4);
}

TEST_F(ChallengerTest, ComparesEachRowOfManyWithItsOwnScores) {
  Start(SomeModel(), OtherModel());
  std::string lines;
  std::string array;
  for (int i = 0; i < 700; ++i) {
    if (i == 300) lines += "{}\n";  // an error of the answer, and no row
    lines += RowText("\"l" + std::to_string(i) + "\"", i % 11) + "\n";
    array += (i > 0 ? "," : "[") + RowText("\"a" + std::to_string(i) + "\"", i % 11);
  }
  Predict(lines, kNdjson);
  Predict(array + "]");
  EXPECT_EQ(Figures()["waiting"], 1400);
  EXPECT_EQ(Figures()["not_compared"], 0);
  double expected[] = {0, 0};
  for (const int row : {0, 255, 256, 299, 300, 699}) {
    for (const char kind : {'l', 'a'}) {
      Label(R"({"id": ")" + (kind + std::to_string(row)) + R"(", "y": "class 0"})");
      expected[0] -= std::log(ScoresOf(models_, row % 11)[0]);
      expected[1] -= std::log(ScoresOf(challengers_, row % 11)[0]);
    }
  }
  const json figures = Figures()["figures"];
  EXPECT_NEAR(figures["model"]["log_loss"].get<double>(), expected[0], 1e-4);
  EXPECT_NEAR(figures["challenger"]["log_loss"].get<double>(), expected[1], 1e-4);
}

TEST_F(ChallengerTest, IsNotComparedByRowsThatItCannotUseAndSaysWhy) {
  Start(SomeModel(), OtherModel());
  const auto rest = [this](const std::string& more, const char* reason) {
    const uint64_t before = Figures()["not_compared"];
    // (The rows beside it are compared.)
    const uint64_t waiting = Figures()["waiting"];
    const std::string row = R"({"a":1,"b":2,"c":"x")" + more + "}";
    const std::string id = std::to_string(before);
    Predict("[" + RowText("\"x" + id + "\"") + "," + row + "," + RowText("\"y" + id + "\"") + "]");
    const json told = Figures();
    EXPECT_EQ(told["not_compared"], before + 1) << more;
    EXPECT_EQ(told["waiting"], waiting + 2) << more;
    EXPECT_THAT(told["not_compared_reason"].get<std::string>(), HasSubstr(reason));
  };
  rest(R"(,"u":1,"v":2)", "a row has no id (\"id\")");
  rest(R"(,"u":1,"v":2,"id":null)", "a row has no id");
  rest(R"(,"u":1,"v":2,"id":" ")", "a row has no id");
  rest(R"(,"u":1,"v":2,"id":")" + std::string(257, 'x') + "\"", "has more than 256 bytes");
  rest(R"(,"u":1,"id":7)", "a row has no \"v\", which the challenger reads");
  // What is no cell ends the array for it, and no other line.
  Predict(R"({"a":1,"b":2,"c":"x","u":[],"v":2,"id":7})"
          "\n" +
              RowText("8"),
          kNdjson);
  EXPECT_EQ(Figures()["not_compared"], 6);
  EXPECT_EQ(Figures()["waiting"], 11);
  EXPECT_THAT(Figures()["not_compared_reason"].get<std::string>(), HasSubstr("'u' is an array"));
}

TEST_F(ChallengerTest, RefusesWhatIsNoLabelAndCountsNoneOfItsRequest) {
  Start(SomeModel(), OtherModel());
  Predict("[" + RowText("1") + "," + RowText("2") + "]");
  const auto refuse = [this](const std::string& body, const char* type, const char* why) {
    const HttpResponse answer = Post("/labels", body, type);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_THAT(json::parse(answer.body)["error"].get<std::string>(), HasSubstr(why));
  };
  const std::string good = R"({"id": 1, "y": "class 1"})";
  refuse("[" + good + R"(, {"id": 2, "y": "class 9"}])", "", "row 2: ");
  refuse(good + "\n\n" + R"({"id": 2, "y": "class 9"})", kNdjson, "line 3: ");
  refuse(good + "\nx", kNdjson, "line 2: malformed JSON");
  refuse(R"({"id": 1})", "", "there is no 'y'");
  refuse(R"({"id": "", "y": "class 1"})", "", "the id is empty");
  refuse(R"({"id": 1, "y": null})", "", "the label is empty");
  EXPECT_EQ(Figures()["labels"], 0);
  EXPECT_EQ(Label(good + "\r\n" + R"({"id": 2, "y": "class 0"})" + "\n", kNdjson)["labels"], 2);
}

TEST_F(ChallengerTest, KeepsNoMoreRowsThanItHasRoomFor) {
  Start(SomeModel(), OtherModel(), 100'000);
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += RowText(std::to_string(i)) + "\n";
  Predict(lines, kNdjson);
  const json told = Figures();
  EXPECT_LT(told["waiting"].get<int>(), 1000);
  EXPECT_EQ(told["forgotten"].get<int>() + told["waiting"].get<int>(), 2000);
  EXPECT_EQ(Label(R"([{"id": 0, "y": "class 0"}, {"id": 1999, "y": "class 0"}])"),
            json::parse(R"({"labels": 1, "unknown": 1})"));
}

TEST_F(ChallengerTest, CountsWhatTheModelsOfTheMomentHavePredicted) {
  Start(SomeModel(), OtherModel());
  Predict(RowText("1"));
  double expected = -std::log(ScoresOf(models_)[1]);
  models_.Give(SomeModel(2, 5));
  Predict(RowText("2"));
  expected -= std::log(ScoresOf(models_)[1]);
  double expected_of_challenger = -2 * std::log(ScoresOf(challengers_)[1]);
  challengers_.Give(OtherModel(2, 6));
  Predict(RowText("3"));
  expected -= std::log(ScoresOf(models_)[1]);
  expected_of_challenger -= std::log(ScoresOf(challengers_)[1]);
  Label(R"([{"id": 1, "y": "class 1"}, {"id": 2, "y": "class 1"}, {"id": 3, "y": "class 1"}])");
  const json figures = Figures()["figures"];
  EXPECT_NEAR(figures["model"]["log_loss"].get<double>(), expected, 1e-5);
  EXPECT_NEAR(figures["challenger"]["log_loss"].get<double>(), expected_of_challenger, 1e-5);
}

TEST_F(ChallengerTest, BeginsAnewWithAModelOfOtherClasses) {
  Start(SomeModel(), OtherModel());
  Predict("[" + RowText("1") + "," + RowText("2") + "]");
  Label(R"({"id": 1, "y": "class 1"})");
  models_.Give(SomeModel(3));
  Predict(RowText("3"));
  EXPECT_EQ(Figures()["not_compared"], 1);
  EXPECT_THAT(Figures()["not_compared_reason"].get<std::string>(), HasSubstr("cannot be compared"));
  EXPECT_EQ(Figures()["labels"], 1);
  challengers_.Give(OtherModel(3));
  Predict(RowText("3"));
  EXPECT_EQ(Figures()["labels"], 0);
  EXPECT_EQ(Label(R"([{"id": 2, "y": "class 2"}, {"id": 3, "y": "class 2"}])")["labels"], 1);
  EXPECT_EQ(Figures()["figures"]["model"]["classes"], 3);
}

TEST_F(ChallengerTest, IsRefusedIfItPredictsSomethingElse) {
  const auto refuse = [this](ExportedModel challenger, const char* why) {
    const Status status = WhyNot(SomeModel(), std::move(challenger));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refuse(OtherModel(3), "it has 3 classes, and not 2");
  refuse(OtherModel(0), "it estimates a number, and no class");
  ExportedModel other = SomeModel();
  other.description.mutable_features()->set_classes(1, "class 7");
  refuse(other, "its class \"class 7\" is none of the model's");
  other = SomeModel();
  other.description.mutable_features()->set_label("z");
  refuse(other, "its label is \"z\", and not \"y\"");
  EXPECT_THAT(std::string(WhyNot(SomeModel(0), SomeModel()).message()),
              HasSubstr("it predicts a class, and no number"));
  const Status status = WhyNot(SomeModel(), SomeModel(), "y");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--id-column y is the label"));
}

TEST_F(ChallengerTest, TakesAColumnOfTheModelsForTheIdToo) {
  models_.Give(SomeModel());
  challengers_.Give(OtherModel());
  const auto made =
      Challenger::Create(models_, challengers_, {.id_column = "u", .figures = SumsText});
  ASSERT_TRUE(made.ok()) << made.status();
  const PredictionService service(models_, {.challenger = made->get()});
  const std::string row = RowText("1");
  service.Answer({.method = "POST", .path = "/predict", .body = row});
  EXPECT_EQ(*(*made)->TakeLabels(R"({"u": 7, "y": "class 1"})", false),
            R"({"labels":1,"unknown":0})");
}

TEST_F(ChallengerTest, TakesIdsAsTheyStandWhateverDecimalSignsTheModelsHave) {
  const std::string row = R"({"id":7.5,"a":1,"b":null,"c":"x","u":7.25,"v":"8"})";
  const std::string text_row = R"({"id":"7,5","a":1,"b":null,"c":"x","u":7.25,"v":"8"})";
  for (const auto& [of_model, of_challenger] : {std::pair(true, false), std::pair(false, true)}) {
    ExportedModel model = SomeModel();
    ExportedModel challenger = OtherModel();
    model.description.mutable_features()->set_decimal_comma(of_model);
    challenger.description.mutable_features()->set_decimal_comma(of_challenger);
    Start(std::move(model), std::move(challenger));
    Predict(row);
    Predict(text_row);
    EXPECT_EQ(Figures()["waiting"], 2);
    EXPECT_EQ(Label(R"({"id": 7.5, "y": "class 1"})")["labels"], 1) << of_model;
    EXPECT_EQ(Label(R"({"id": "7,5", "y": "class 1"})")["labels"], 1) << of_model;
    Predict(row);
    EXPECT_EQ(Label(R"({"id": "7.5", "y": "class 1"})")["labels"], 1) << of_model;
  }
  // Also if the id is a column of the challenger, which reads it as its number.
  challengers_.Give([&] {
    ExportedModel model = OtherModel();
    model.description.mutable_features()->set_decimal_comma(true);
    return model;
  }());
  auto made = Challenger::Create(models_, challengers_, {.id_column = "u", .figures = SumsText});
  ASSERT_TRUE(made.ok()) << made.status();
  const PredictionService service(models_, {.challenger = made->get()});
  const HttpRequest request = {.method = "POST", .path = "/predict", .body = row};
  ASSERT_EQ(service.Answer(request).status, 200);
  EXPECT_EQ(*(*made)->TakeLabels(R"({"u": 7.25, "y": "class 1"})", false),
            R"({"labels":1,"unknown":0})");
}

TEST_F(ChallengerTest, WaitsForAModel) {
  challengers_.Give(OtherModel());
  auto made = Challenger::Create(models_, challengers_, {.id_column = "id", .figures = SumsText});
  ASSERT_TRUE(made.ok()) << made.status();
  const PredictionService service(models_, {.challenger = made->get()});
  const HttpRequest label{.method = "POST", .path = "/labels", .body = R"({"id":1,"y":"class 1"})"};
  EXPECT_EQ(service.Answer(label).status, 503);
  EXPECT_EQ(service.Answer({.method = "GET", .path = "/challenger"}).status, 200);
  models_.Give(SomeModel());
  EXPECT_EQ(json::parse(service.Answer(label).body)["unknown"], 1);
}

TEST_F(ChallengerTest, IsAskedForByItsPathsIfThereIsOne) {
  Start(SomeModel(), OtherModel());
  EXPECT_EQ(service_->Answer({.method = "GET", .path = "/labels"}).status, 405);
  EXPECT_EQ(service_->Answer({.method = "POST", .path = "/challenger"}).status, 405);
  EXPECT_THAT(service_->Answer({.method = "GET", .path = "/"}).body, HasSubstr("and /labels"));
  const PredictionService secret(models_, {.token = "x", .challenger = challenger_.get()});
  EXPECT_EQ(secret.Answer({.method = "POST", .path = "/labels"}).status, 401);
  EXPECT_EQ(secret.Answer({.method = "GET", .path = "/challenger"}).status, 401);
  const PredictionService alone(models_, {});
  EXPECT_EQ(alone.Answer({.method = "POST", .path = "/labels"}).status, 404);
  EXPECT_EQ(alone.Answer({.method = "GET", .path = "/challenger"}).status, 404);
}

TEST_F(ChallengerTest, ComparesForManyThreadsWhileModelsChange) {
  Start(SomeModel(), OtherModel());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 100; ++j) {
        const std::string id = std::to_string(100 * i + j);
        Predict(RowText(id));
        Label(R"({"id": )" + id + R"(, "y": "class 1"})");
        Figures();
      }
    });
  }
  for (unsigned seed = 2; seed < 6; ++seed) {
    models_.Give(SomeModel(2, seed));
    challengers_.Give(OtherModel(2, seed));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Figures()["labels"], 400);
  EXPECT_EQ(Figures()["figures"]["challenger"]["rows"], 400);
}

}  // namespace
}  // namespace millrace
