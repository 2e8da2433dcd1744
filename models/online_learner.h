// Learns a linear classifier row by row: several learning rates at once, racing on the loss of each
// row before it is learnt from. docs/learning.md has the formulas, and why they are so.
// Internal to models/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

// The numbers of the race. A weight of the model is kValues floats: a weight for each rate, then
// the curvature of the losses so far in its direction.
struct OnlineRace {
  // Steps of a constant rate follow a stream that changes.
  static constexpr std::array<float, 2> kConstant = {0.02f, 0.1f};
  // Steps that get shorter by the root of the weight's curvature settle where it does not.
  static constexpr std::array<float, 3> kDecaying = {0.06f, 0.25f, 1.0f};
  static constexpr size_t kRates = kConstant.size() + kDecaying.size();
  static constexpr size_t kCurvature = kRates;
  static constexpr size_t kValues = kRates + 1;
  // The last racer learns from no feature: it predicts how frequent each class has been.
  static constexpr size_t kRacers = kRates + 1;
  // Beside a weight's curvature, so that the first step is finite.
  static constexpr float kFirstCurvature = 1e-3f;
  // The race counts a loss of n rows ago times (1 - 1 / kMemory)^n.
  static constexpr double kMemory = 2000;
  // A racer's loss by one row is at most this.
  static constexpr float kMostLoss = 9.2f;
  // A feature counts as one of at most this size, so that its square and sums of it are numbers.
  static constexpr float kLargestFeature = 1e6f;
  // A step changes a score z at most by |z| + kLongestStep.
  static constexpr float kLongestStep = 5.0f;
};

// The race as it stands: float by float additive, so that it is kept like parameters. The loss of
// each racer, then the count of each class; both with kMemory.
struct RaceView {
  std::span<float> losses;  // kRacers
  std::span<float> counts;  // classes

  static size_t FloatsFor(size_t classes) { return OnlineRace::kRacers + classes; }
  // Of the first FloatsFor(classes) floats.
  static RaceView Of(std::span<float> floats, size_t classes) {
    return {floats.first(OnlineRace::kRacers), floats.subspan(OnlineRace::kRacers, classes)};
  }
};

// Works on a copy of the parameters that it is given block by block. A block is the weights of a
// feature: columns() x kValues floats. Not thread-safe.
class OnlineLearner {
 public:
  // `class_weights`: empty, or a factor on the rows of each class.
  OnlineLearner(size_t classes, std::vector<float> class_weights);

  // Two classes need one column: the log odds of class 1. More have one each.
  static size_t ColumnsFor(size_t classes) { return classes == 2 ? 1 : classes; }
  static size_t BlockSizeFor(size_t classes) { return ColumnsFor(classes) * OnlineRace::kValues; }
  size_t columns() const { return columns_; }
  size_t block_size() const { return BlockSizeFor(classes_); }

  // A feature of the row that is not 0, and not beyond +-kLargestFeature.
  struct Term {
    float* block = nullptr;
    float* joint = nullptr;  // columns() sums for DampingOf; null when the row is only tested
    float x = 0;
  };

  // Takes the race as it stands: how much each racer counts from here on. To be called again when
  // it has changed.
  void SetRace(const RaceView& race);
  // The probability of each class by the racers together, weighted by their shares. REQUIRES:
  // SetRace.
  void Test(std::span<const Term> terms, std::span<float> scores);
  // The weight and the weighted loss of the row of the last Test.
  BatchLoss LossOfRow(uint32_t label) const;
  // Learns from the row of the last Test, whose terms these were, and counts it in the race.
  void Learn(std::span<const Term> terms, uint32_t label, RaceView race);

  // The weights by which the racers together predict, for one block: columns() floats. That of the
  // racer without features is added to the bias by the caller (PriorScore).
  void Mix(const float* block, std::span<float> weights) const;
  // What the racer without features adds to the score of a column.
  float PriorScore(size_t column) const {
    return shares_[OnlineRace::kRacers - 1] * prior_[column];
  }

 private:
  float WeightOf(uint32_t label) const {
    return class_weights_.empty() ? 1.0f : class_weights_[label];
  }
  void SetPrior(std::span<const float> counts);
  void ToProbabilities();
  // Of the class, by the racer in this lane.
  float ProbabilityOf(size_t label, size_t lane) const {
    const size_t line = columns_ == 1 ? 1 - label : label;
    return probabilities_[line * kLanes + lane];
  }
  void CountRace(uint32_t label, float weight, RaceView& race) const;
  // `squares`: (norm of the row)^2.
  void LearnColumn(std::span<const Term> terms, size_t column, float target, float weight,
                   float squares);
  // Of each rate: what x (times 1 / root of the curvature, of decaying rates) is multiplied by.
  // `rooted_squares`: the sum of x^2 / root of the curvature.
  std::array<float, OnlineRace::kRates> StepsOf(size_t column, float target, float weight,
                                                float squares, float rooted_squares) const;

  const size_t classes_;
  const size_t columns_;
  const std::vector<float> class_weights_;
  std::array<float, OnlineRace::kRacers> shares_{};  // they add up to 1
  std::vector<float> prior_;  // columns: scores of the racer without features

  // Of the last row: by column, of each rate and then of all together.
  static constexpr size_t kLanes = 8;
  std::vector<float> scores_;  // columns x kLanes
  // The same shape; of one column a second line has the probabilities of class 0.
  std::vector<float> probabilities_;
  std::vector<float> roots_;  // terms: 1 / root of the curvature, of the column at hand
};

// How much of a worker's change counts, when `concurrent` workers change the same weight without
// knowing of each other: all of it, as long as their changes are small, and less, the further each
// has come by itself towards what its rows ask for. `first` and `last`: the block's column before
// and after the batch; `joint`: the sum over the batch's rows with this feature of weight x
// curvature x (norm of the row)^2. kRates factors.
std::array<float, OnlineRace::kRates> DampingOf(const float* first, const float* last, float joint,
                                                uint32_t concurrent);

}  // namespace millrace
