#include "predictor/prediction_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;

FeatureSpec Spec(const std::vector<std::string>& classes) {
  FeatureSpec spec;
  spec.set_label("y");
  spec.mutable_classes()->Assign(classes.begin(), classes.end());
  return spec;
}

std::string Json(const FeatureSpec& spec, const std::vector<float>& scores) {
  std::string text;
  PredictionText(spec).AppendJson(scores, &text);
  return text;
}

std::string Cells(const FeatureSpec& spec, const std::vector<float>& scores, char delimiter) {
  std::string text;
  PredictionText(spec).AppendCells(scores, delimiter, &text);
  return text;
}

TEST(PredictionText, NamesTheMostProbableClassTheFirstOfEqualOnes) {
  EXPECT_EQ(Json(Spec({"no", "yes"}), {0.25f, 0.75f}),
            R"({"class":"yes","probabilities":{"no":0.25,"yes":0.75}})");
  EXPECT_EQ(Json(Spec({"no", "yes"}), {0.5f, 0.5f}),
            R"({"class":"no","probabilities":{"no":0.5,"yes":0.5}})");
}

TEST(PredictionText, OfARegressionIsAnEstimate) {
  EXPECT_EQ(Json(Spec({}), {12.5f}), R"({"estimate":12.5})");
  EXPECT_EQ(Cells(Spec({}), {12.5f}, ';'), ";12.5");
  EXPECT_THAT(PredictionText(Spec({})).columns(), ElementsAre("predicted_y"));
}

TEST(PredictionText, HasNamesOfAnyCharacters) {
  const FeatureSpec spec = Spec({"a\"b,\n", "\u00e9\\"});
  const nlohmann::json json = nlohmann::json::parse(Json(spec, {0.75f, 0.25f}));
  EXPECT_EQ(json["class"], "a\"b,\n");
  EXPECT_EQ(json["probabilities"]["\u00e9\\"], 0.25);
  EXPECT_EQ(Cells(spec, {0.75f, 0.25f}, ','), ",\"a\"\"b,\n\",0.75,0.25");
  EXPECT_THAT(PredictionText(spec).columns(),
              ElementsAre("predicted_y", "probability_a\"b,\n", "probability_\u00e9\\"));
}

TEST(PredictionText, HasDigitsThatGiveTheSameFloatAgain) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const float value =
        std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 60) - 60);
    EXPECT_EQ(std::strtof(Cells(Spec({}), {value}, ',').c_str() + 1, nullptr), value);
  }
}

TEST(PredictionText, HasNoWordsInItsJsonThatAreNoJson) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Json(Spec({}), {infinity}), R"({"estimate":null})");
  EXPECT_EQ(Json(Spec({"a", "b"}), {std::nanf(""), -infinity}),
            R"({"class":"a","probabilities":{"a":null,"b":null}})");
  EXPECT_EQ(Cells(Spec({}), {infinity}, ','), ",nan");
}

}  // namespace
}  // namespace millrace
