// Learns a linear model row by row: several learning rates at once, racing on the loss of each row
// before it is learnt from. docs/learning.md has the formulas, and why they are so.
// online_classifier.h and online_estimator.h say what the loss is. Internal to models/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/moments.h"

namespace millrace {

// The numbers of the race. A weight of the model is kValues floats: a weight for each rate, then
// the curvature of the losses so far in its direction.
struct OnlineRace {
  // Steps of a constant rate follow a stream that changes.
  static constexpr std::array<float, 2> kConstant = {0.02f, 0.1f};
  // Steps that get shorter by the root of the weight's curvature settle where it does not.
  static constexpr std::array<float, 3> kDecaying = {0.06f, 0.25f, 1.0f};
  static constexpr size_t kRates = kConstant.size() + kDecaying.size();
  static constexpr std::array<float, kRates> kRateOf = [] {
    std::array<float, kRates> rates{};
    std::ranges::copy(kConstant, rates.begin());
    std::ranges::copy(kDecaying, rates.begin() + kConstant.size());
    return rates;
  }();
  static constexpr size_t kCurvature = kRates;
  static constexpr size_t kValues = kRates + 1;
  // The last racer learns from no feature: it predicts how frequent each class has been.
  static constexpr size_t kRacers = kRates + 1;
  // Beside a weight's curvature, so that the first step is finite.
  static constexpr float kFirstCurvature = 1e-3f;
  // The race counts a loss of n rows ago times (1 - 1 / kMemory)^n.
  static constexpr double kMemory = 2000;
  // A feature counts as one of at most this size, so that its square and sums of it are numbers.
  static constexpr float kLargestFeature = 1e6f;
};

// The race as it stands: float by float additive, so that it is kept like parameters. The loss of
// each racer, then the count of each class (of a regression: of all rows); both with kMemory.
struct RaceView {
  std::span<float> losses;  // kRacers
  std::span<float> counts;  // classes, or one

  // `classes` 0: a regression.
  static size_t CountsFor(size_t classes) { return std::max<size_t>(classes, 1); }
  static size_t FloatsFor(size_t classes) { return OnlineRace::kRacers + CountsFor(classes); }
  // Of the first FloatsFor(classes) floats.
  static RaceView Of(std::span<float> floats, size_t classes) {
    return {floats.first(OnlineRace::kRacers),
            floats.subspan(OnlineRace::kRacers, CountsFor(classes))};
  }
};

// What classifiers and estimators have in common. A block of the parameters is the weights of a
// feature: columns() x kValues floats. It works on copies of them, working blocks, which it is
// given. Not thread-safe.
class OnlineLearner {
 public:
  virtual ~OnlineLearner() = default;

  // Two classes need one column: the log odds of class 1. More have one each, a regression one.
  static size_t ColumnsFor(size_t classes) { return classes <= 2 ? 1 : classes; }
  static size_t BlockSizeFor(size_t classes) { return ColumnsFor(classes) * OnlineRace::kValues; }
  size_t columns() const { return columns_; }

  // A working block is kLanes floats for each column, so that the rates are one vector: the kValues
  // of the parameters, then the sums for DampingOf, of constant and of decaying rates.
  static constexpr size_t kLanes = 8;
  static constexpr size_t kJoint = OnlineRace::kValues;
  static constexpr size_t kJointDecaying = kJoint + 1;
  static_assert(kJointDecaying < kLanes);
  static constexpr std::array<float, kLanes> kRateOfLane = [] {
    std::array<float, kLanes> rates{};  // 0 where there is none
    std::ranges::copy(OnlineRace::kRateOf, rates.begin());
    return rates;
  }();
  static size_t WorkingBlockSizeFor(size_t classes) { return ColumnsFor(classes) * kLanes; }

  // A feature of the row that is not 0, and not beyond +-kLargestFeature.
  struct Term {
    float* block = nullptr;  // a working block
    float x = 0;
    // How much of what two rows have of the feature leads their scores the same way: kCentred,
    // where x is as often below 0 as above.
    float alike = 1;
  };
  // All of it does, if columns say the same, and it cancels out, if they have nothing to do with
  // each other. By half of it the changes of any number of workers add up to twice the way at most
  // (DampingOf), so that no error grows even where rows are all alike.
  static constexpr float kCentred = 0.5f;

  // Takes the race as it stands: how much each racer counts from here on. To be called again when
  // it has changed.
  virtual void SetRace(const RaceView& race) = 0;
  // Of classes: the factor on the loss of the rows of this class from here on.
  virtual void SetClassWeight(uint32_t /*label*/, float /*weight*/) {}
  // Of a regression: of the rows before the next one.
  virtual void SetTarget(const TargetMoments& /*before*/) {}
  // The scores (Model::score_count) by the racers together, weighted by their shares; `scores` may
  // be empty. REQUIRES: SetRace.
  virtual void Test(std::span<const Term> terms, std::span<float> scores) = 0;
  // The weight and the weighted loss of the row of the last Test.
  virtual BatchLoss LossOfRow(const Row& row) const = 0;
  // Learns from the row of the last Test, whose terms these were, and counts it in the race.
  virtual void Learn(std::span<const Term> terms, const Row& row, RaceView race) = 0;

  // The weights by which the racers together predict, for one block: columns() floats. What the
  // racer without features adds is added to the bias by the caller (PriorScore).
  void Mix(const float* block, std::span<float> weights) const;
  // What is added to the score of a column, whatever the features.
  virtual float PriorScore(size_t column) const = 0;

 protected:
  static constexpr size_t kMixture = OnlineRace::kRates;  // the lane of all racers together

  explicit OnlineLearner(size_t columns);

  // By the racers' exponents, at most 0 (exponential weights: Vovk 1990).
  void SetShares(const std::array<float, OnlineRace::kRacers>& exponents);
  float share(size_t racer) const { return shares_[racer]; }
  // Fills scores_; all together: `prior` of each column, and the rates' by their shares.
  void Score(std::span<const Term> terms, std::span<const float> prior);

  // A number for each rate. Lane e is of rate e, and 0 where there is none.
  struct alignas(kLanes * sizeof(float)) Rates {
    std::array<float, kLanes> of{};
  };
  // To be called once for each row, before AddCurvature.
  void SetTerms(std::span<const Term> terms);
  // Counts the row's curvature. Returns how far the rates' steps for a slope of 1 change the score
  // of the row: rate x the sum of x^2, or of x^2 / root of the curvature. REQUIRES: the last term
  // is the bias.
  Rates AddCurvature(std::span<const Term> terms, size_t column, float curvature);
  // Moves the weights of the terms of the last AddCurvature against the slopes: of each rate what x
  // is multiplied by (and by 1 / root of the curvature, of decaying rates).
  void Move(std::span<const Term> terms, size_t column, const Rates& steps) const;

  // Of the last row: columns() x kLanes, of each rate and then of all together.
  std::vector<float> scores_;

 private:
  const size_t columns_;
  std::array<float, OnlineRace::kRacers> shares_{};  // they add up to 1
  std::vector<float> squares_;                       // terms: x^2
  std::vector<float> alike_;                         // terms
  float sum_of_squares_ = 0;
  // Terms, of the column at hand: 1 / root of the curvature; and how much of x^2 another row has on
  // average.
  std::vector<float> roots_;
  std::vector<float> common_;
};

// How much of a worker's change counts, when `concurrent` workers change the same weight without
// knowing of each other: all of it, as long as their changes are small, and less, the further each
// has come by itself towards what its rows ask for. The sums over the batch's rows with this
// feature of weight x curvature x what another such row has in common with it: of the squares, and
// of the squares / root of their curvature. kRates factors.
std::array<float, OnlineRace::kRates> DampingOf(float joint, float joint_decaying,
                                                uint32_t concurrent);

}  // namespace millrace
