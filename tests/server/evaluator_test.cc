#include "server/evaluator.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "models/mixed_softmax.h"
#include "models/online_softmax.h"
#include "tests/models/random_rows.h"

namespace millrace {
namespace {

// To the last bit: what is exported of such a job has these figures.
TEST(Evaluator, EvaluatesAnOnlineLearnerByTheWeightsOfAllItsRacersTogether) {
  const OnlineSoftmax model({.numeric = 2, .features = 8, .classes = 3, .ids = true});
  std::mt19937 random(5);
  TestSet test_set;
  test_set.rows = RandomRows(
      {.numeric = 2, .hashed = 6, .hashed_in_row = 3, .ids = {5, 6, 7, 1000}, .ids_in_row = 2}, 3,
      700, random);
  const std::vector<Row> rows = test_set.rows;
  std::optional<EvaluationFigures> found;
  Evaluator evaluator(
      std::move(test_set), model, 3, true,
      [&found](const EvaluationInput&, const EvaluationFigures& figures) { found = figures; });
  EvaluationInput input;
  input.parameters = RandomFloats(model.parameter_count(), 0.5f, random);
  input.rows = RandomFloats(evaluator.ids().size() * model.row_width(), 0.5f, random);
  input.moments = Moments(2);
  for (const Row& row : rows) input.moments.Add(row);
  evaluator.Offer(input);
  evaluator.Finish();
  ASSERT_TRUE(found);

  const std::vector<float> mixed_rows = model.MixBlocks(input.parameters, input.rows);
  std::vector<float> scores(rows.size() * 3);
  MixedSoftmax(model.shape())
      .Compute(Pointers(rows), Scaler(input.moments), model.MixedParameters(input.parameters),
               {evaluator.ids(), mixed_rows}, nullptr, scores);
  EvaluationSums sums;
  for (size_t i = 0; i < rows.size(); ++i) {
    sums.AddRow(rows[i], std::span(scores).subspan(3 * i, 3), 3);
  }
  EXPECT_EQ(found->rows, rows.size());
  EXPECT_EQ(found->log_loss, ComputeFigures(sums, 3).log_loss);
}

}  // namespace
}  // namespace millrace
