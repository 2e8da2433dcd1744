#include "models/online_estimator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/portable_math.h"

namespace millrace {
namespace {

using Race = OnlineRace;

// An error counts as one of at most this size, so that sums of squares are numbers.
constexpr float kMostError = 1e17f;
// As many deviations of the targets count as a racer's error at most.
constexpr double kMostUnits = 1e6;

float Clamped(float error, float most) {
  // (What is not a number is no error that one could learn from.)
  return error == error ? std::clamp(error, -most, most) : 0.0f;
}

}  // namespace

OnlineEstimator::OnlineEstimator(const ScoreLoss& loss)
    : OnlineLearner(ColumnsFor(0)), loss_(loss) {}

// The likelihood of n errors of an unknown size is the size's estimate to the power of -n: for
// squared errors of normal ones (with n / 2), for absolute ones of Laplace's. So no unit matters.
void OnlineEstimator::SetRace(const RaceView& race) {
  const bool absolute = loss_.error == ErrorLoss::kAbsolute;
  const auto rows = static_cast<double>(std::max(race.counts[0], 0.0f));
  const auto loss_of = [&](size_t e) {
    return static_cast<double>(std::max(race.losses[e], 0.0f));
  };
  double least = loss_of(0);
  for (size_t e = 1; e < Race::kRacers; ++e) {
    if (takes_part(e)) least = std::min(least, loss_of(e));
  }
  // (Of racers without an error all others lose, as soon as they make one.)
  const double smallest = std::max(least, 1e-30);
  std::array<float, Race::kRacers> exponents;
  for (size_t e = 0; e < Race::kRacers; ++e) {
    const double more = NaturalLog(std::max(loss_of(e), smallest) / smallest);
    exponents[e] = static_cast<float>(-std::min(100.0, (absolute ? rows : rows / 2) * more));
  }
  SetShares(exponents);
}

void OnlineEstimator::Test(std::span<const Term> terms, std::span<float> scores) {
  constexpr std::array<float, 1> kNone = {0};
  Score(terms, kNone);
  if (scores.empty()) return;
  scores[0] = static_cast<float>(before_.Shown(static_cast<double>(Unlimited())));
}

float OnlineEstimator::DistanceOf(const Row& row) const {
  return static_cast<float>(static_cast<double>(row.target) - before_.mean);
}

float OnlineEstimator::ErrorOf(size_t lane, float distance) const {
  return Clamped(scores_[lane] - distance, kMostError);
}

float OnlineEstimator::Limit() const {
  if (loss_.error == ErrorLoss::kSquared) return 0;
  const float factor = loss_.error == ErrorLoss::kHuber ? loss_.huber : 1.0f;
  return factor * Clamped(static_cast<float>(before_.mean_error), kMostError);
}

BatchLoss OnlineEstimator::LossOfRow(const Row& row) const {
  const double from_mean =
      before_.Shown(before_.mean + static_cast<double>(together_[0])) - before_.mean;
  const auto estimate = static_cast<float>(from_mean / before_.deviation());
  return {TargetLoss(loss_.error, loss_.huber, before_, estimate, row.target, {}).loss, 1};
}

bool OnlineEstimator::Learn(std::span<const Term> terms, const Row& row, RaceView race) {
  if (!before_.known()) return false;
  const float distance = DistanceOf(row);
  CountRace(distance, row.target, race);
  SetTerms(terms);
  const Rates reach = AddCurvature(terms, 0, 1.0f);
  Move(terms, 0, StepsOf(distance, reach));
  const float limit = Limit();
  const float error = ErrorOf(kNewtonLane, distance);
  SetNewtonStep(0, 1.0f, -(limit > 0 ? std::clamp(error, -limit, limit) : error));
  return true;
}

// In units of the targets' deviation, the row's own included: so losses are of the same size,
// whatever the targets' unit is.
void OnlineEstimator::CountRace(float distance, float target, RaceView& race) const {
  constexpr auto kKept = static_cast<float>(1 - 1 / Race::kMemory);
  TargetMoments with = before_;
  with.Add(target);
  const double unit = with.deviation();
  const auto in_units = [&](float size) {
    return static_cast<float>(std::min(static_cast<double>(size) / unit, kMostUnits));
  };
  const float limit = in_units(Limit());
  const auto loss_of = [&](float error) {
    const float size = in_units(std::abs(error));
    if (loss_.error == ErrorLoss::kAbsolute) return size;
    if (limit > 0 && size > limit) return limit * (2 * size - limit);
    return size * size;
  };
  static_assert(kNewtonLane == Race::kNewton);
  for (size_t e = 0; e <= Race::kNewton; ++e) {
    if (!takes_part(e)) continue;
    race.losses[e] = race.losses[e] * kKept + loss_of(ErrorOf(e, distance));
  }
  float& without_features = race.losses[Race::kPrior];
  without_features = without_features * kKept + loss_of(Clamped(distance, kMostError));
  race.counts[0] = race.counts[0] * kKept + 1;
}

// Of the squared error a step goes reach / (1 + reach) of the way to the target. Beyond Huber's
// limit, and with absolute errors, it is as long as the limit allows. (The slope of an absolute
// error is 1 in any unit; times the errors' usual size it is as that of a squared one is on
// average. Such a step goes to the target at most.)
OnlineLearner::Rates OnlineEstimator::StepsOf(float distance, const Rates& reach) const {
  const float limit = Limit();
  const bool absolute = loss_.error == ErrorLoss::kAbsolute && limit > 0;
  Rates steps;
  for (size_t e = 0; e < Race::kRates; ++e) {
    const float error = ErrorOf(e, distance);
    const float far = reach.of[e];
    float slope = error / (absolute ? std::max(far, 1e-6f) : 1.0f + far);
    if (limit > 0) slope = std::clamp(slope, -limit, limit);
    steps.of[e] = rates().of[e] * slope;
  }
  return steps;
}

}  // namespace millrace
