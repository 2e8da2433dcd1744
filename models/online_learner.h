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
  static constexpr std::array<float, 3> kConstant = {0.02f, 0.12f, 0.7f};
  // Steps that get shorter by the root of the weight's curvature settle where it does not.
  static constexpr std::array<float, 4> kDecaying = {0.015f, 0.06f, 0.25f, 1.0f};
  static constexpr size_t kRates = kConstant.size() + kDecaying.size();
  static constexpr std::array<float, kRates> kRateOf = [] {
    std::array<float, kRates> rates{};
    std::ranges::copy(kConstant, rates.begin());
    std::ranges::copy(kDecaying, rates.begin() + kConstant.size());
    return rates;
  }();
  // The slowest of each kind begin at the class frequencies: to learn them takes them long, and the
  // more so the rarer a class is.
  static constexpr bool BeginsAtPrior(size_t rate) { return rate == 0 || rate == kConstant.size(); }
  static constexpr size_t kCurvature = kRates;
  static constexpr size_t kValues = kRates + 1;
  // The racers after the rates: the one that knows the numeric columns together (NewtonRacer), if
  // there is one, and the one that uses no feature, but predicts how frequent each class has been.
  static constexpr size_t kNewton = kRates;
  static constexpr size_t kPrior = kNewton + 1;
  static constexpr size_t kRacers = kPrior + 1;
  // Beside a weight's curvature, so that the first step is finite.
  static constexpr float kFirstCurvature = 1e-3f;
  // (Below 0 is none: who wrote the job's topics may have made it up.)
  static float Positive(float curvature) { return std::max(curvature, 0.0f) + kFirstCurvature; }
  // The race counts a loss of n rows ago times (1 - 1 / kMemory)^n.
  static constexpr double kMemory = 2000;
  // A constant rate times the sum of a row's squares is at most this: so no single row is followed
  // beyond that, however many features it has.
  static constexpr float kMostReach = 6;
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

class NewtonRacer;

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

  // A working block is as a block of the parameters, but that each column has kLanes floats, so
  // that the rates are one vector.
  static constexpr size_t kLanes = 8;
  static_assert(OnlineRace::kValues <= kLanes);
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
  };

  // A number for each rate. Lane e is of rate e, and 0 where there is none.
  struct alignas(kLanes * sizeof(float)) Rates {
    std::array<float, kLanes> of{};
  };
  // What a row has done to a column.
  struct Step {
    Rates rates;          // for a row as large as this one
    Rates moves;          // Move's
    float curvature = 0;  // AddCurvature's
    // By the score of NewtonRacer: the curvature of the loss, and its slope downwards.
    float newton_curvature = 0;
    float newton_pull = 0;
  };

  // What takes part in the race beside the rates; may be null. To be set before SetRace; it has to
  // outlive the last Learn, and to have the row that is tested.
  void SetNewton(const NewtonRacer* newton) {
    newton_ = newton;
    has_newton_ = newton != nullptr;
  }
  // Enough for the shares and Mix, which ask it for no score.
  void SetHasNewton(bool has_newton) { has_newton_ = has_newton; }

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
  // Of a regression: what the last Test found, before it was kept to the range of the targets.
  virtual float Unlimited() const { return 0; }
  // The weight and the weighted loss of the row of the last Test.
  virtual BatchLoss LossOfRow(const Row& row) const = 0;
  // Learns from the row of the last Test, whose terms these were, and counts it in the race. False:
  // nothing can be learnt from it yet.
  virtual bool Learn(std::span<const Term> terms, const Row& row, RaceView race) = 0;
  // Of the last Learn that was one, for each column.
  std::span<const Step> steps() const { return steps_; }

  // The weights by which the rates' part of all racers together predicts, for one block: columns()
  // floats. What the others add is added by the caller (PriorScore, share of kNewton).
  void Mix(const float* block, std::span<float> weights) const;
  // The weight of the racer: they add up to 1. REQUIRES: SetRace.
  float share(size_t racer) const { return shares_[racer]; }
  // What is added to the score of a column, whatever the features.
  virtual float PriorScore(size_t column) const = 0;

 protected:
  // The lane of scores after those of the rates.
  static constexpr size_t kNewtonLane = OnlineRace::kRates;
  static_assert(kNewtonLane < kLanes);

  explicit OnlineLearner(size_t columns);

  bool takes_part(size_t racer) const { return racer != OnlineRace::kNewton || has_newton_; }
  // By the exponents of those that take part, at most 0 (exponential weights: Vovk 1990).
  void SetShares(const std::array<float, OnlineRace::kRacers>& exponents);
  // Fills scores_ and together_. `prior`: of each column, the score of the racer without features.
  void Score(std::span<const Term> terms, std::span<const float> prior);
  // The sum of the shares of the racers whose scores include `prior`.
  float prior_share() const { return prior_share_; }

  // To be called once for each row, before AddCurvature.
  void SetTerms(std::span<const Term> terms);
  // To be called for each column, with what the loss is by NewtonRacer's score.
  void SetNewtonStep(size_t column, float curvature, float pull) {
    steps_[column].newton_curvature = curvature;
    steps_[column].newton_pull = pull;
  }
  // For a row as large as the one of the last SetTerms.
  const Rates& rates() const { return rates_; }
  // Counts the row's curvature. Returns how far the rates' steps for a slope of 1 change the score
  // of the row: rate x the sum of x^2, or of x^2 / root of the curvature.
  Rates AddCurvature(std::span<const Term> terms, size_t column, float curvature);
  // Moves the weights of the terms of the last AddCurvature against the slopes: of each rate what x
  // is multiplied by (and by 1 / root of the curvature, of decaying rates).
  void Move(std::span<const Term> terms, size_t column, const Rates& moves);

  // Of the last row: columns() x kLanes, of each rate and of NewtonRacer.
  std::vector<float> scores_;
  // Columns: of all racers together.
  std::vector<float> together_;

 private:
  const size_t columns_;
  const NewtonRacer* newton_ = nullptr;
  bool has_newton_ = false;
  std::array<float, OnlineRace::kRacers> shares_{};  // they add up to 1
  float prior_share_ = 0;
  std::vector<float> squares_;  // terms: x^2
  float sum_of_squares_ = 0;
  Rates rates_;
  std::vector<float> roots_;  // terms, of the column at hand: 1 / root of the curvature
  std::vector<Step> steps_;   // columns
};

}  // namespace millrace
