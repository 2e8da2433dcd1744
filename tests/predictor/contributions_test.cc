#include "predictor/contributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "predictor/row_scorer.h"
#include "tests/exports/small_models.h"

namespace millrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Cells = std::vector<std::string_view>;

std::shared_ptr<const ModelScorer> Scorer(ExportedModel model) {
  return std::make_shared<const ModelScorer>(std::move(model));
}

json ContributionsOf(const std::shared_ptr<const ModelScorer>& model, const Cells& cells) {
  auto contributions = Contributions::Create(model);
  EXPECT_TRUE(contributions.ok()) << contributions.status();
  std::string text;
  EXPECT_TRUE(contributions->AppendJson(cells, &text).ok());
  return json::parse(text);
}

std::vector<double> ScoresOf(const std::shared_ptr<const ModelScorer>& model, const Cells& cells) {
  RowScorer rows = RowScorer::Create(model).value();
  const Status added = rows.Add(cells);
  EXPECT_TRUE(added.ok()) << added;
  const auto scores = rows.Score();
  return {scores.begin(), scores.end()};
}

double Sum(const json& contributions, const std::string& of_class = "") {
  const auto number = [&](const json& each) {
    return of_class.empty() ? each.get<double>() : each[of_class].get<double>();
  };
  double sum = number(contributions["offset"]);
  for (const json& part : contributions["parts"]) sum += number(part);
  return sum;
}

// That they add up to what the model says of the row.
void ExpectSum(const std::shared_ptr<const ModelScorer>& model, const Cells& cells) {
  const std::vector<double> scores = ScoresOf(model, cells);
  const json answer = ContributionsOf(model, cells);
  const auto& classes = model->model().description.features().classes();
  if (scores.size() == 1) {
    EXPECT_NEAR(Sum(answer), scores[0], 1e-4) << answer;
  } else if (scores.size() == 2) {
    EXPECT_EQ(answer["of"], classes[1]);
    EXPECT_NEAR(Sum(answer), std::log(scores[1] / scores[0]), 1e-4) << answer;
  } else {
    for (size_t k = 1; k < scores.size(); ++k) {
      EXPECT_NEAR(Sum(answer, classes[static_cast<int>(k)]) - Sum(answer, classes[0]),
                  std::log(scores[k] / scores[0]), 1e-4)
          << answer;
    }
  }
}

TEST(Contributions, AddUpToTheScoreOfEachLinearModel) {
  size_t linear = 0;
  for (const SmallModel& each : AllSmallModels()) {
    SCOPED_TRACE(each.name);
    if (each.kind != ModelShape::LINEAR) continue;
    ++linear;
    const auto model = Scorer(ModelOf(each));
    for (Cells cells : {Cells{"1.5", "-2", "x"}, Cells{"", "0.25", ""}, Cells{"9e9", "", "y"}}) {
      if (each.ids) cells.insert(cells.end(), {"7", ""});
      ExpectSum(model, cells);
    }
  }
  EXPECT_GE(linear, 8u);
}

// Columns of each kind, of which some are read in several ways.
ModelDescription ManyColumns(FeatureSpec::Missing missing) {
  ModelDescription description = DescriptionFor(ModelShape::LINEAR, 2, true);
  FeatureSpec& spec = *description.mutable_features();
  spec.set_missing(missing);
  spec.add_booleans("b");
  spec.add_bins("a:3");
  spec.add_bins("b:2");
  spec.add_bins("d:2");
  for (const char* column : {"a", "b", "d"}) {
    FeatureSpec::BinEdges& edges = *spec.add_bin_edges();
    edges.set_column(column);
    edges.add_edge(0.5);
  }
  spec.add_categorical("a*c");
  spec.add_categorical("b*d*c");
  spec.add_categorical("t.hour");
  spec.add_times("t");
  spec.add_text("words");
  spec.add_text("c");
  spec.set_text_buckets(16);
  spec.add_ids("a*d");
  ModelShape& shape = *description.mutable_shape();
  shape.set_mixed(true);
  shape.set_ids(3);
  shape.set_features(static_cast<uint32_t>(FeatureEncoder::Create(spec).value().feature_count()));
  return description;
}

TEST(Contributions, OfColumnsThatAreReadInSeveralWaysAreOne) {
  for (const bool wide : {false, true}) {
    for (const auto missing : {FeatureSpec::MEAN_AND_INDICATOR, FeatureSpec::MEAN}) {
      ModelDescription description = ManyColumns(missing);
      description.mutable_shape()->set_wide(wide);
      ExportedModel made = RandomModel(description, 2);
      if (wide) {  // each hashed feature has weights, or most parts would be 0
        made.ids.clear();
        for (EmbeddingId id = 2; id < description.shape().features(); ++id) made.ids.push_back(id);
        std::mt19937 random(7);
        made.rows = RandomFloats(made.ids.size() * 2, 0.5f, random);
      }
      const auto model = Scorer(std::move(made));
      const RowScorer rows = RowScorer::Create(model).value();
      const auto cells_of = [&](std::vector<std::pair<std::string, std::string_view>> values) {
        Cells cells;
        for (const std::string& column : rows.columns()) {
          const auto found =
              std::ranges::find(values, column, &decltype(values)::value_type::first);
          cells.push_back(found == values.end() ? "" : found->second);
        }
        return cells;
      };
      const Cells row = cells_of({{"a", "0.75"},
                                  {"b", "yes"},
                                  {"c", "some words, some x"},
                                  {"d", "0.1"},
                                  {"t", "2013-01-31T10:00:00Z"},
                                  {"words", "a few words"},
                                  {"u", "7"},
                                  {"v", "8"}});
      ExpectSum(model, row);
      ExpectSum(model, cells_of({{"a", ""}, {"t", "2013-01-31"}}));
      const json parts = ContributionsOf(model, row)["parts"];
      std::vector<std::string> names;
      for (const auto& [name, part] : parts.items()) names.push_back(name);
      EXPECT_THAT(names, testing::UnorderedElementsAre("a", "b", "c", "d", "a*c", "b*d*c", "t.hour",
                                                       "words", "u", "v", "a*d"));
      EXPECT_NE(parts["t.hour"], 0);
    }
  }
}

TEST(Contributions, OfAModelThatIsNoSumAreRefused) {
  for (const SmallModel& each : AllSmallModels()) {
    if (each.kind == ModelShape::LINEAR) continue;
    const Status status = Contributions::Create(Scorer(ModelOf(each))).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of linear models only"));
  }
}

TEST(Contributions, OfARegressionThatHasLearntNothingAreRefused) {
  ModelDescription description = DescriptionFor(ModelShape::LINEAR, 0, false);
  description.mutable_target()->Clear();
  description.mutable_target()->set_unit(1);
  const Status status = Contributions::Create(Scorer(RandomModel(description))).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("has not learnt from any row"));
}

}  // namespace
}  // namespace millrace
