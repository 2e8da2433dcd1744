#include "exports/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exports/model_reader.h"
#include "exports/model_scorer.h"
#include "tests/exports/small_models.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class EveryModel : public ::testing::TestWithParam<SmallModel> {};
INSTANTIATE_TEST_SUITE_P(Exports, EveryModel, ::testing::ValuesIn(AllSmallModels()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryModel, IsReadAsItWasWrittenAndGivesTheSameScores) {
  const ExportedModel model = ModelOf(GetParam());
  const TemporaryFolder folder;
  const Status written = Write(folder / "model", model);
  ASSERT_TRUE(written.ok()) << written;
  StatusOr<ExportedModel> read = ReadModel(folder / "model");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->weights, model.weights);
  EXPECT_EQ(read->ids, model.ids);
  EXPECT_EQ(read->rows, model.rows);
  const ModelScorer before(model);
  const ModelScorer after(*std::move(read));
  const std::vector<Row> rows = SomeRows(GetParam());
  const std::vector<const Row*> pointers = Pointers(rows);
  std::vector<float> expected(rows.size() * before.score_count());
  std::vector<float> found(expected.size());
  before.Score(pointers, expected);
  after.Score(pointers, found);
  EXPECT_EQ(found, expected);
}

TEST_P(EveryModel, GivesARowTheSameScoresWhateverIsBesideIt) {
  const ModelScorer scorer(ModelOf(GetParam()));
  const std::vector<Row> rows = SomeRows(GetParam());
  const std::vector<const Row*> pointers = Pointers(rows);
  std::vector<float> all(rows.size() * scorer.score_count());
  scorer.Score(pointers, all);
  std::vector<float> one_by_one;
  for (const Row* row : pointers) {
    std::vector<float> scores(scorer.score_count());
    scorer.Score(std::span(&row, 1), scores);
    one_by_one.insert(one_by_one.end(), scores.begin(), scores.end());
  }
  EXPECT_EQ(one_by_one, all);
}

TEST_P(EveryModel, HasProbabilitiesThatAddUpToOne) {
  const ModelScorer scorer(ModelOf(GetParam()));
  if (GetParam().classes == 0) GTEST_SKIP() << "it has none";
  const std::vector<Row> rows = SomeRows(GetParam());
  const std::vector<const Row*> pointers = Pointers(rows);
  std::vector<float> scores(rows.size() * scorer.score_count());
  scorer.Score(pointers, scores);
  for (size_t i = 0; i < rows.size(); ++i) {
    float sum = 0;
    for (size_t k = 0; k < scorer.score_count(); ++k) sum += scores[i * scorer.score_count() + k];
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST(ModelShape, ThatNoModelHasIsRefusedBeforeAnythingIsMadeOfIt) {
  using Change = std::function<void(ModelDescription&)>;
  const std::vector<std::pair<Change, std::string>> changes = {
      {[](auto& d) { d.mutable_shape()->set_kind(static_cast<ModelShape::Kind>(9)); }, "this kind"},
      {[](auto& d) { d.mutable_shape()->set_classes(1); }, "two and more"},
      {[](auto& d) { d.mutable_shape()->set_numeric(13); }, "two and more"},
      {[](auto& d) { d.mutable_shape()->set_mixed(true); }, "only linear models"},
      {[](auto& d) { d.mutable_shape()->set_factors(0); }, "number of factors"},
      {[](auto& d) { d.mutable_shape()->set_factors(20000); }, "10000 factors"},
      {[](auto& d) { d.mutable_shape()->set_wide(true); }, "cannot be wide"},
      {[](auto& d) { d.mutable_shape()->set_ids(0); }, "has id columns"},
      {[](auto& d) { d.mutable_shape()->clear_hidden(); }, "hidden layers"},
      {[](auto& d) { d.mutable_shape()->set_hidden(0, 0); }, "hidden layers"},
      {[](auto& d) { d.mutable_shape()->set_hidden(1, 1u << 31); }, "hidden layers"},
      {[](auto& d) { d.mutable_shape()->set_row_limit(-1); }, "the limit"},
      {[](auto& d) { d.mutable_shape()->set_features(11); }, "not those of the shape"},
      {[](auto& d) { d.mutable_features()->clear_label(); }, "label"},
      {[](auto& d) { d.mutable_features()->clear_classes(); }, "class"},
      {[](auto& d) { d.mutable_target()->set_count(1); }, "a regression has a target"},
      {[](auto& d) { d.mutable_frequencies()->add_rows(1); }, "the frequencies"},
      {[](auto& d) { d.mutable_frequencies()->add_weight(1); }, "the classes' weights"},
      {[](auto& d) { d.mutable_shape()->set_row_zeros(2); }, "embedding rows"},
  };
  for (const auto& [change, why] : changes) {
    ModelDescription description = DescriptionFor(ModelShape::DEEP_FM, 2, true);
    SetRowWidth(description);
    ASSERT_TRUE(CheckDescription(description).ok()) << CheckDescription(description);
    change(description);
    const Status status = CheckDescription(description);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(ModelShape, OfARegressionNeedsTheUnitOfItsTarget) {
  ModelDescription description = DescriptionFor(ModelShape::LINEAR, 0, false);
  ASSERT_TRUE(CheckDescription(description).ok()) << CheckDescription(description);
  description.mutable_target()->set_unit(2);
  EXPECT_THAT(std::string(CheckDescription(description).message()), HasSubstr("unit"));
  description.mutable_target()->set_unit(3);
  description.mutable_target()->set_m2(-1);
  EXPECT_THAT(std::string(CheckDescription(description).message()), HasSubstr("no numbers"));
}

TEST(ModelShape, OfARegressionMayKeepEstimatesToARange) {
  ModelDescription description = DescriptionFor(ModelShape::LINEAR, 0, false);
  ModelDescription::Target& target = *description.mutable_target();
  EXPECT_EQ(TargetOf(description).Shown(1e6), 1e6);
  target.set_least(-1);
  EXPECT_THAT(std::string(CheckDescription(description).message()), HasSubstr("no numbers"));
  target.set_most(20);
  ASSERT_TRUE(CheckDescription(description).ok()) << CheckDescription(description);
  EXPECT_EQ(TargetOf(description).Shown(1e6), 20);
  EXPECT_EQ(TargetOf(description).Shown(-7), -1);
  target.set_most(-2);
  EXPECT_THAT(std::string(CheckDescription(description).message()), HasSubstr("no numbers"));
}

}  // namespace
}  // namespace millrace
