#include "predictor/prediction_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "predictor/model_folder.h"
#include "predictor/row_scorer.h"
#include "tests/exports/small_models.h"
#include "tests/predictor/given_models.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kRow[] = R"({"a": 1.5, "b": null, "c": "x", "u": "7", "v": "8"})";

class PredictionServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { Put(1); }

  void Put(unsigned seed) {
    model_ = RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true), seed);
    model_.description.set_created_ms(1);
    ASSERT_TRUE(Write(folder_ / "model", model_).ok());
    if (models_ != nullptr) {
      ASSERT_TRUE(models_->Refresh().ok());
      return;
    }
    auto opened = ModelFolder::Open(folder_ / "model");
    ASSERT_TRUE(opened.ok()) << opened.status();
    models_ = *std::move(opened);
    service_ = std::make_unique<PredictionService>(*models_, PredictionService::Options{});
  }

  HttpResponse Post(std::string_view body, std::string_view type = "application/json") {
    return service_->Answer(
        {.method = "POST", .path = "/predict", .content_type = type, .body = body});
  }

  // What the scorer says of kRow.
  std::vector<float> Expected() {
    auto rows = RowScorer::Create(models_->model());
    EXPECT_TRUE(rows.ok()) << rows.status();
    const std::vector<std::string_view> cells = {"1.5", "", "x", "7", "8"};
    EXPECT_TRUE(rows->Add(cells).ok());
    const auto scores = rows->Score();
    return {scores.begin(), scores.end()};
  }

  void ExpectRow(const json& prediction) {
    const std::vector<float> expected = Expected();
    for (size_t k = 0; k < expected.size(); ++k) {
      const std::string name = "class " + std::to_string(k);
      EXPECT_EQ(prediction["probabilities"][name].get<float>(), expected[k]);
    }
    EXPECT_EQ(prediction["class"],
              "class " + std::to_string(std::ranges::max_element(expected) - expected.begin()));
  }

  TemporaryFolder folder_;
  ExportedModel model_;
  std::unique_ptr<ModelFolder> models_;
  std::unique_ptr<PredictionService> service_;
};

TEST_F(PredictionServiceTest, AnswersAnObjectByAPredictionAndAnArrayByAnArray) {
  const HttpResponse one = Post(kRow);
  EXPECT_EQ(one.status, 200) << one.body;
  EXPECT_EQ(one.content_type, "application/json");
  ExpectRow(json::parse(one.body));
  const HttpResponse two = Post("[" + std::string(kRow) + "," + kRow + "]");
  const json answer = json::parse(two.body);
  ASSERT_EQ(answer.size(), 2u);
  ExpectRow(answer[0]);
  ExpectRow(answer[1]);
  EXPECT_EQ(Post("[]").body, "[]\n");
}

TEST_F(PredictionServiceTest, AnswersMoreRowsThanItHolds) {
  std::string body = "[";
  for (int i = 0; i < 1000; ++i) body += (i > 0 ? "," : "") + std::string(kRow);
  const json answer = json::parse(Post(body + "]").body);
  ASSERT_EQ(answer.size(), 1000u);
  for (const json& each : answer) EXPECT_EQ(each, answer[0]);
  ExpectRow(answer[0]);
}

TEST_F(PredictionServiceTest, SaysWhichRowOfAnArrayCannotBeUsedAndWhy) {
  const HttpResponse answer =
      Post("[" + std::string(kRow) + R"(, {"a": "x1", "b": 1, "c": "", "u": "", "v": ""}])");
  EXPECT_EQ(answer.status, 400);
  const std::string error = json::parse(answer.body)["error"];
  EXPECT_THAT(error, HasSubstr("row 2: "));
  EXPECT_THAT(error, HasSubstr("x1"));
  EXPECT_EQ(Post("{").status, 400);
  EXPECT_EQ(Post("").status, 400);
  // (What went wrong before is not in the next answer.)
  EXPECT_EQ(json::parse(Post("[" + std::string(kRow) + "]").body).size(), 1u);
}

TEST_F(PredictionServiceTest, AnswersEachLineOfNdjson) {
  const std::string body =
      std::string(kRow) + "\r\n\n{\"a\": 1}\n[" + kRow + "]\n" + kRow + "\nnonsense";
  const HttpResponse answer = Post(body, "application/x-ndjson; charset=utf-8");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "application/x-ndjson");
  std::vector<json> lines;
  std::istringstream text(answer.body);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 5u) << answer.body;
  ExpectRow(lines[0]);
  EXPECT_THAT(lines[1]["error"], HasSubstr("line 3: there is no 'b'"));
  EXPECT_THAT(lines[2]["error"], HasSubstr("line 4: a line is one object"));
  ExpectRow(lines[3]);
  EXPECT_THAT(lines[4]["error"], HasSubstr("line 6: "));
  EXPECT_EQ(Post("", "application/x-ndjson").body, "");
}

TEST_F(PredictionServiceTest, AnswersALineOfNdjsonByALineWhateverStandsBehindAnObject) {
  std::string body;
  for (int i = 0; i < 300; ++i) body += std::string(kRow) + (i == 255 ? " {}\n" : "\n");
  std::istringstream text(Post(body, "application/x-ndjson").body);
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 300u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].contains("error"), i == 255) << i;
}

TEST_F(PredictionServiceTest, GivesContributionsIfTheyAreAskedForWhereTheModelIsLinear) {
  const auto post = [&](std::string_view body, std::string_view type) {
    return service_->Answer({.method = "POST",
                             .path = "/predict",
                             .query = {{"contributions", "1"}},
                             .content_type = type,
                             .body = body});
  };
  const HttpResponse refused = post(kRow, "");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(json::parse(refused.body)["error"].get<std::string>(),
              HasSubstr("of linear models only"));
  const ExportedModel linear = RandomModel(DescriptionFor(ModelShape::LINEAR, 2, false), 1);
  ASSERT_TRUE(Write(folder_ / "model", linear).ok());
  ASSERT_TRUE(models_->Refresh().ok());
  const json plain = json::parse(Post(kRow).body);
  EXPECT_FALSE(plain.contains("contributions"));
  std::string body = "[" + std::string(kRow);
  for (int i = 1; i < 300; ++i) body += "," + std::string(kRow);
  const json answers = json::parse(post(body + "]", "").body);
  ASSERT_EQ(answers.size(), 300u);
  for (json each : answers) {
    EXPECT_EQ(each["contributions"]["parts"].size(), 3u);
    EXPECT_EQ(each["contributions"]["of"], "class 1");
    each.erase("contributions");
    EXPECT_EQ(each, plain);
  }
  const HttpResponse lines = post("{}\n" + std::string(kRow), "application/x-ndjson");
  EXPECT_THAT(lines.body, HasSubstr("\n{\"class\":"));
  EXPECT_THAT(lines.body, HasSubstr("\"contributions\":{\"of\":\"class 1\""));
}

TEST_F(PredictionServiceTest, RefusesNdjsonOfWhichHardlyALineCanBeUsed) {
  std::string body;
  for (size_t i = 0; i < PredictionService::kMostBadLines; ++i) body += "x\n";
  EXPECT_EQ(Post(body, "application/x-ndjson").status, 200);
  const HttpResponse answer = Post(body + "y\n", "application/x-ndjson");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(json::parse(answer.body)["error"].get<std::string>(),
              HasSubstr("more than 100 lines"));
}

TEST_F(PredictionServiceTest, RefusesByTheHeadWhatNeedsNoBody) {
  const PredictionService service(*models_, {.token = "secret"});
  const HttpRequest head{.method = "POST", .path = "/predict"};
  EXPECT_EQ(service.Refuse(head)->status, 401);
  EXPECT_FALSE(service_->Refuse(head).has_value());
  EXPECT_EQ(service_->Refuse({.method = "PUT", .path = "/predict"})->status, 405);
  EXPECT_EQ(service_->Refuse({.method = "POST", .path = "/nothing"})->status, 404);
}

TEST_F(PredictionServiceTest, PredictsByTheNewestModel) {
  const json before = json::parse(Post(kRow).body);
  Put(2);
  const json after = json::parse(Post(kRow).body);
  EXPECT_NE(before, after);
  ExpectRow(after);
}

TEST_F(PredictionServiceTest, TellsOfItsModel) {
  const HttpResponse answer = service_->Answer({.method = "GET", .path = "/model"});
  EXPECT_EQ(answer.status, 200);
  const json told = json::parse(answer.body);
  EXPECT_EQ(told["model"]["job"], "job");
  EXPECT_EQ(told["model"]["features"]["classes"][2], "class 2");
  EXPECT_GT(told["age_seconds"].get<double>(), 1e9);
  EXPECT_TRUE(told["newer_model_error"].is_null());
  EXPECT_EQ(told["model"]["snapshot"], "0");
}

TEST_F(PredictionServiceTest, AModelOfTheFutureIsZeroSecondsOld) {
  for (const int64_t created_ms : {NowMs() + 60'000, std::numeric_limits<int64_t>::max()}) {
    model_.description.set_created_ms(created_ms);
    ASSERT_TRUE(Write(folder_ / "model", model_).ok());
    ASSERT_TRUE(models_->Refresh().ok());
    const json told = json::parse(service_->Answer({.method = "GET", .path = "/model"}).body);
    EXPECT_EQ(told["age_seconds"].get<double>(), 0);
  }
}

TEST_F(PredictionServiceTest, AnUnknownQueryParameterIsAnErrorThatNamesTheKnownOne) {
  const auto refusal = [&](std::vector<HttpParameter> query) {
    const std::optional<HttpResponse> answer =
        service_->Refuse({.method = "POST", .path = "/predict", .query = std::move(query)});
    EXPECT_TRUE(!answer || answer->status == 400);
    return answer ? json::parse(answer->body)["error"].get<std::string>() : "";
  };
  EXPECT_EQ(refusal({{"contribution", "1"}}),
            "there is no query parameter 'contribution'; /predict has one: contributions=1 (or 0)");
  EXPECT_THAT(refusal({{"contributions", "1"}, {"x\n", ""}}),
              HasSubstr("query parameter 'x\\x0a'"));
  EXPECT_THAT(refusal({{"contributions", "1"}, {"contributions", "0"}}), HasSubstr("twice"));
  for (const std::string value : {"2", "", "yes", "11"}) {
    EXPECT_THAT(refusal({{"contributions", value}}),
                HasSubstr("contributions is '" + value + "'; give contributions=1"));
  }
  for (const char* value : {"1", "true", "0", "false"}) {
    EXPECT_EQ(refusal({{"contributions", value}}), "");
  }
}

TEST_F(PredictionServiceTest, GivesContributionsByTheValueOfTheParameter) {
  const ExportedModel linear = RandomModel(DescriptionFor(ModelShape::LINEAR, 2, false), 1);
  ASSERT_TRUE(Write(folder_ / "model", linear).ok());
  ASSERT_TRUE(models_->Refresh().ok());
  for (const char* value : {"0", "false", "1", "true"}) {
    const HttpResponse answer = service_->Answer(
        {.method = "POST", .path = "/predict", .query = {{"contributions", value}}, .body = kRow});
    const bool wanted = std::string_view(value) == "1" || std::string_view(value) == "true";
    EXPECT_EQ(json::parse(answer.body).contains("contributions"), wanted) << value;
  }
}

TEST_F(PredictionServiceTest, LooksAtNoParametersOfAProbe) {
  const std::vector<HttpParameter> query = {{"time", "1"}};
  EXPECT_EQ(service_->Answer({.method = "GET", .path = "/healthz", .query = query}).status, 200);
  EXPECT_EQ(service_->Answer({.method = "GET", .path = "/readyz", .query = query}).status, 200);
  const HttpResponse model = service_->Answer({.method = "GET", .path = "/model", .query = query});
  EXPECT_EQ(model.status, 400);
  EXPECT_THAT(model.body, HasSubstr("/model has no query parameters; leave 'time' out"));
}

TEST_F(PredictionServiceTest, SaysThatItRunsAndIsReady) {
  for (const char* path : {"/healthz", "/readyz"}) {
    EXPECT_EQ(service_->Answer({.method = "GET", .path = path}).status, 200);
    EXPECT_EQ(service_->Answer({.method = "POST", .path = path}).status, 405);
  }
}

TEST_F(PredictionServiceTest, RefusesOtherPathsAndMethods) {
  EXPECT_EQ(service_->Answer({.method = "GET", .path = "/"}).status, 404);
  const HttpResponse get = service_->Answer({.method = "GET", .path = "/predict"});
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(get.allow, "POST");
  EXPECT_EQ(service_->Answer({.method = "DELETE", .path = "/model"}).status, 405);
}

TEST_F(PredictionServiceTest, WithATokenAnswersNobodyElse) {
  const PredictionService service(*models_, {.token = "secret"});
  const auto ask = [&](std::string_view authorization, const char* path) {
    return service.Answer({.method = "GET", .path = path, .authorization = authorization}).status;
  };
  for (const char* wrong : {"", "secret", "Bearer", "Bearer ", "Bearer secreT", "Bearer secret2",
                            "Bearer secre", "Basic secret"}) {
    EXPECT_EQ(ask(wrong, "/model"), 401) << wrong;
  }
  EXPECT_EQ(ask("Bearer secret", "/model"), 200);
  EXPECT_EQ(ask("bearer secret", "/model"), 200);
  EXPECT_EQ(ask("", "/healthz"), 200);
  EXPECT_EQ(service.Answer({.method = "POST", .path = "/predict", .body = kRow}).status, 401);
}

TEST(PredictionServiceOfAnySource, SaysWhyItIsNotReadyUntilThereIsAModel) {
  GivenModels models;
  const PredictionService service(models, {});
  const std::vector<std::pair<const char*, const char*>> asked = {
      {"GET", "/readyz"}, {"GET", "/model"}, {"POST", "/predict"}};
  const auto ask = [&](const char* method, const char* path) {
    return service.Answer({.method = method, .path = path, .body = kRow});
  };
  for (const auto& [method, path] : asked) {
    const HttpResponse answer = ask(method, path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(json::parse(answer.body)["error"], "the job has not begun") << path;
  }
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  models.Give(RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true)));
  for (const auto& [method, path] : asked) {
    EXPECT_EQ(ask(method, path).status, 200) << path;
  }
  const json told = json::parse(ask("GET", "/model").body);
  EXPECT_EQ(told["newer_model_error"], "the job has not begun");
  EXPECT_EQ(told["ended"], false);
}

TEST(PredictionServiceOfAnySource, TellsTheContributionsToThePredictionsOfTheNewestModel) {
  GivenModels models;
  const PredictionService service(models, {});
  for (const unsigned seed : {1u, 2u}) {
    models.Give(RandomModel(DescriptionFor(ModelShape::LINEAR, 2, false), seed));
    const json answer = json::parse(service
                                        .Answer({.method = "POST",
                                                 .path = "/predict",
                                                 .query = {{"contributions", "1"}},
                                                 .body = kRow})
                                        .body);
    double log_odds = answer["contributions"]["offset"];
    for (const json& part : answer["contributions"]["parts"]) log_odds += part.get<double>();
    const double probability = answer["probabilities"]["class 1"];
    EXPECT_NEAR(log_odds, std::log(probability / (1 - probability)), 1e-4) << answer;
  }
  models.Give(RandomModel(DescriptionFor(ModelShape::NETWORK, 2, false), 1));
  EXPECT_EQ(service
                .Answer({.method = "POST",
                         .path = "/predict",
                         .query = {{"contributions", "1"}},
                         .body = kRow})
                .status,
            400);
}

TEST(PredictionServiceOfAnySource, PredictsByModelsOfTheSameAndOfOtherFeatures) {
  GivenModels models;
  const PredictionService service(models, {});
  for (const size_t classes : {3, 3, 2, 3}) {
    for (const unsigned seed : {1u, 2u}) {
      models.Give(RandomModel(DescriptionFor(ModelShape::NETWORK, classes, true), seed));
      auto rows = RowScorer::Create(models.model());
      ASSERT_TRUE(rows.ok()) << rows.status();
      ASSERT_TRUE(rows->Add(std::vector<std::string_view>{"1.5", "", "x", "7", "8"}).ok());
      const auto scores = rows->Score();
      const HttpResponse answer =
          service.Answer({.method = "POST", .path = "/predict", .body = kRow});
      ASSERT_EQ(answer.status, 200) << answer.body;
      const json probabilities = json::parse(answer.body)["probabilities"];
      ASSERT_EQ(probabilities.size(), classes);
      for (size_t k = 0; k < classes; ++k) {
        EXPECT_EQ(probabilities["class " + std::to_string(k)].get<float>(), scores[k]);
      }
    }
  }
}

TEST_F(PredictionServiceTest, AnswersManyThreadsAtOnceWhileModelsChange) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int j = 0; j < 200; ++j) EXPECT_EQ(Post(kRow).status, 200);
    });
  }
  for (unsigned seed = 2; seed < 6; ++seed) Put(seed);
  for (std::thread& thread : threads) thread.join();
  ExpectRow(json::parse(Post(kRow).body));
}

}  // namespace
}  // namespace millrace
