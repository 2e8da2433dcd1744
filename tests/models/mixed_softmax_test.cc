#include "models/mixed_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/distinct_ids.h"
#include "tests/models/online_job.h"

namespace millrace {
namespace {

using Shape = OnlineSoftmax::Shape;

std::vector<Row> RowsFor(const Shape& shape, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Row> rows = RandomRows({.numeric = shape.numeric,
                                      .hashed = shape.features - shape.numeric,
                                      .hashed_in_row = 3,
                                      .missing = 0.1,
                                      .ids = {1u << 20, 1u << 21, 1u << 22},
                                      .ids_in_row = shape.ids ? 2u : 0u},
                                     std::max<size_t>(shape.classes, 1), count, random);
  for (Row& row : rows) {
    if (row.numeric[0] > 0.3) row.label = 0;
  }
  return rows;
}

// The scores of the rows, all together or one by one.
struct Scores {
  std::vector<float> of_racers;
  std::vector<float> mixed;
  BatchLoss loss_of_racers;
  BatchLoss loss;
};
Scores ScoresOf(const OnlineJob& job, RowsView rows) {
  const OnlineSoftmax& model = job.model();
  const MixedSoftmax mixed(model.shape());
  std::vector<EmbeddingId> ids;
  for (const Row* row : rows) mixed.AppendIds(*row, ids);
  SortDistinct(ids);
  const std::vector<float> values = job.RowsOf(ids);
  Scores scores;
  scores.of_racers.resize(rows.size() * model.score_count());
  scores.mixed.resize(scores.of_racers.size());
  scores.loss_of_racers =
      model.Compute(rows, job.scaler(), job.parameters(), {ids, values}, nullptr, scores.of_racers);
  scores.loss =
      mixed.Compute(rows, job.scaler(), model.MixedParameters(job.parameters()),
                    {ids, model.MixBlocks(job.parameters(), values)}, nullptr, scores.mixed);
  return scores;
}

TEST(MixedSoftmaxTest, GivesTheScoresOfAllRacersTogether) {
  for (const Shape& shape :
       {Shape{.numeric = 2, .features = 6, .classes = 2},
        Shape{.numeric = 2, .features = 6, .classes = 4},
        Shape{.numeric = 2, .features = 6, .classes = 3, .wide = true},
        Shape{.numeric = 2, .features = 6, .classes = 2, .ids = true},
        Shape{.numeric = 1, .features = 6, .classes = 3, .wide = true, .ids = true}}) {
    for (const size_t learnt : {0, 30, 400}) {
      OnlineJob job(shape);
      job.Learn(RowsFor(shape, learnt, 3));
      const std::vector<Row> rows = RowsFor(shape, 60, 4);
      const std::vector<const Row*> pointers = Pointers(rows);
      const Scores scores = ScoresOf(job, pointers);
      for (size_t i = 0; i < scores.mixed.size(); ++i) {
        ASSERT_NEAR(scores.mixed[i], scores.of_racers[i], 2e-6);
      }
      EXPECT_NEAR(scores.loss.loss_sum, scores.loss_of_racers.loss_sum, 1e-3);
      EXPECT_EQ(scores.loss.weight_sum, 60);
    }
  }
}

TEST(MixedSoftmaxTest, GivesARowTheSameBytesWhateverIsBesideItWideOrNot) {
  const Shape narrow{.numeric = 2, .features = 40, .classes = 3};
  Shape wide = narrow;
  wide.wide = true;
  OnlineJob dense(narrow);
  OnlineJob sparse(wide);
  const std::vector<Row> learnt = RowsFor(narrow, 300, 5);
  dense.Learn(learnt);
  sparse.Learn(learnt);
  const std::vector<Row> rows = RowsFor(narrow, 50, 6);
  const std::vector<const Row*> pointers = Pointers(rows);
  const std::vector<float> all = ScoresOf(dense, pointers).mixed;
  EXPECT_EQ(ScoresOf(sparse, pointers).mixed, all);
  std::vector<float> one_by_one;
  for (const Row* row : pointers) {
    const std::vector<float> scores = ScoresOf(sparse, RowsView(&row, 1)).mixed;
    one_by_one.insert(one_by_one.end(), scores.begin(), scores.end());
  }
  EXPECT_EQ(one_by_one, all);
}

TEST(MixedSoftmaxTest, CountsAFeatureAsOneOfAtMostAMillionAsTrainingDoes) {
  const Shape shape{.numeric = 1, .features = 2, .classes = 2};
  OnlineJob job(shape, {}, false);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 200; ++i) {
    Row& row = rows.emplace_back();
    row.label = i % 2;
    row.numeric = {i % 2 == 0 ? 1e12 : -1e12};
  }
  job.Learn(rows);
  job.Learn(rows);
  std::vector<Row> most = {rows[0]};
  most[0].numeric[0] = 1e6;
  const std::vector<Row> more = {rows[0]};
  EXPECT_EQ(ScoresOf(job, Pointers(most)).mixed, ScoresOf(job, Pointers(more)).mixed);
}

TEST(MixedSoftmaxTest, EstimatesTheMeanOfTheTargetsPlusWhatFeaturesAdd) {
  const MixedSoftmax model({.numeric = 1, .features = 3, .classes = 0, .ids = true});
  ASSERT_EQ(model.parameter_count(), 4u);
  ASSERT_EQ(model.row_width(), 1u);
  Row row;
  row.numeric = {2};
  row.index = {2};
  row.value = {3};
  row.ids = {9};
  row.target = 100;
  const Row* const view = &row;
  Scaler scaler = Scaler::Identity(1);
  const std::vector<float> parameters = {10, 100, 1000, 0.5};
  const std::vector<EmbeddingId> ids = {9};
  const std::vector<float> values = {0.25};
  std::vector<float> score(1, 7);
  model.Compute(RowsView(&view, 1), scaler, parameters, {ids, values}, nullptr, score);
  EXPECT_EQ(score[0], 0) << "no target is known";
  scaler.set_target({.count = 4, .mean = -20, .m2 = 16});
  const BatchLoss loss =
      model.Compute(RowsView(&view, 1), scaler, parameters, {ids, values}, nullptr, score);
  EXPECT_EQ(score[0], -20 + 0.5f + 20 + 3000 + 0.25f);
  EXPECT_EQ(loss.weight_sum, 1);
  const double error = (static_cast<double>(score[0]) - 100) / 2;  // in deviations of the targets
  EXPECT_NEAR(loss.loss_sum, error * error / 2, 1);
}

}  // namespace
}  // namespace millrace
