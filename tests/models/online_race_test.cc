// What the race of an online learner makes of floats that others have changed meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "models/online_classifier.h"

namespace millrace {
namespace {

// A worker that is far behind takes away its part of a count that others have forgotten since.
TEST(OnlineRace, AClassOfWhichMoreWasForgottenThanCountedIsARareOne) {
  for (const size_t classes : {2u, 3u}) {
    OnlineClassifier learner(classes, {});
    std::array<float, OnlineRace::kRacers> losses{};
    std::vector<float> counts(classes, 900.0f);
    counts[1] = -200;
    const RaceView race{losses, counts};
    std::vector<float> block(OnlineLearner::WorkingBlockSizeFor(classes));
    const OnlineLearner::Term bias{block.data(), 1.0f};
    std::vector<float> scores(classes);
    for (int row = 0; row < 3; ++row) {
      learner.SetRace(race);
      learner.Test({&bias, 1}, scores);
      EXPECT_GT(scores[1], 0.0f);
      EXPECT_LT(scores[1], scores[0]);
      EXPECT_TRUE(std::isfinite(learner.LossOfRow(Row{}).loss_sum));
      learner.Learn({&bias, 1}, Row{}, race);
    }
    for (const float value : block) EXPECT_TRUE(std::isfinite(value));
    for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss));
    learner.SetRace(race);
    for (size_t c = 0; c < learner.columns(); ++c) {
      EXPECT_TRUE(std::isfinite(learner.PriorScore(c)));
    }
  }
}

// (The change is refused as poison then; it does not end the worker.)
TEST(OnlineRace, WeightsTooLargeForAScoreGiveNoNumberAndNoCrash) {
  for (const size_t classes : {2u, 3u}) {
    OnlineClassifier learner(classes, {});
    std::array<float, OnlineRace::kRacers> losses{};
    std::vector<float> counts(classes, 3e38f);
    std::vector<float> block(OnlineLearner::WorkingBlockSizeFor(classes), 1e38f);
    const OnlineLearner::Term terms[] = {{block.data(), 1e18f}, {block.data(), -1e18f}};
    std::vector<float> scores(classes);
    learner.SetRace({losses, counts});
    learner.Test(terms, scores);
    EXPECT_TRUE(std::isnan(scores[0]));
    learner.Learn(terms, Row{}, {losses, counts});
    for (const float loss : losses) EXPECT_GE(loss, 0.0f);
  }
}

}  // namespace
}  // namespace millrace
