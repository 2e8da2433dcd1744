// Learns to estimate a number row by row. Internal to models/.
#pragma once

#include <span>

#include "models/online_learner.h"
#include "models/row_loss.h"

namespace millrace {

// Estimates are the mean of the targets so far, which is what the racer without features answers,
// and what the features add to it, in the target's own unit. A step is the implicit one (Kulis,
// Bartlett 2010; Parikh, Boyd 2014, proximal operators), so that no rate overshoots and none needs
// to know the unit.
class OnlineEstimator final : public OnlineLearner {
 public:
  explicit OnlineEstimator(const ScoreLoss& loss);

  void SetRace(const RaceView& race) override;
  void SetTarget(const TargetMoments& before) override { before_ = before; }
  void Test(std::span<const Term> terms, std::span<float> scores) override;
  float Unlimited() const override { return before_.known() ? PriorScore(0) + together_[0] : 0.0f; }
  BatchLoss LossOfRow(const Row& row) const override;
  // A row before which no target is known teaches nothing.
  bool Learn(std::span<const Term> terms, const Row& row, RaceView race) override;
  float PriorScore(size_t /*column*/) const override { return static_cast<float>(before_.mean); }

 private:
  // Of the target from the mean, and of a racer's estimate from the target.
  float DistanceOf(const Row& row) const;
  float ErrorOf(size_t lane, float distance) const;
  // Beyond which errors count linearly; 0: no limit is known, or there is none.
  float Limit() const;
  void CountRace(float distance, float target, RaceView& race) const;
  Rates StepsOf(float distance, const Rates& reach) const;

  const ScoreLoss loss_;
  TargetMoments before_;
};

}  // namespace millrace
