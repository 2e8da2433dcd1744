#include "models/online_classifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "models/lanes.h"
#include "models/portable_math.h"

namespace millrace {
namespace {

using Race = OnlineRace;

// A racer's loss by one row is at most this.
constexpr float kMostLoss = 9.2f;
// A step changes a score z at most by |z| + kLongestStep.
constexpr float kLongestStep = 5.0f;
// What is added to each count, so that no class is impossible.
constexpr float kUnseen = 0.5f;
// A count may fall below 0: workers subtract what they forget of a count that they know late.
float Smoothed(float count) { return std::max(count, 0.0f) + kUnseen; }
float TotalOf(std::span<const float> counts) {
  float total = 0;
  for (const float count : counts) total += Smoothed(count);
  return total;
}

// Whose logarithm is still finite.
constexpr double kLeastProbability = 1e-30;

double LossOf(double probability) { return -NaturalLog(std::max(probability, kLeastProbability)); }

// The probabilities of the classes by kScorers, whose scores of a class are next to each other; of
// two classes there are the scores of class 1 only, and the second line is of class 0.
template <size_t kScorers>
void ToProbabilities(std::span<const float> scores, float* probabilities) {
  using Floats = Lanes<kScorers>;
  const auto store = [](float* to, const Floats& lanes) {
    StoreFirst<kScorers, kScorers>(to, lanes);
  };
  const size_t columns = scores.size() / kScorers;
  if (columns == 1) {
    const Floats z = Load<kScorers>(scores.data());
    const Floats e = ExpOfNegative<kScorers>(z > 0.0f ? -z : z);
    const Floats likelier = 1.0f / (e + 1.0f);
    const Floats unlikelier = e / (e + 1.0f);  // not the rest of 1, which has fewer digits
    store(probabilities, z > 0.0f ? likelier : unlikelier);
    store(probabilities + kScorers, z > 0.0f ? unlikelier : likelier);
    return;
  }
  Floats largest = Load<kScorers>(scores.data());
  for (size_t c = 1; c < columns; ++c) {
    largest = Max<kScorers>(largest, Load<kScorers>(scores.data() + c * kScorers));
  }
  Floats sum = {};
  for (size_t c = 0; c < columns; ++c) {
    const size_t at = c * kScorers;
    const Floats e = ExpOfNegative<kScorers>(Load<kScorers>(scores.data() + at) - largest);
    store(probabilities + at, e);
    sum += e;
  }
  for (size_t c = 0; c < columns; ++c) {
    float* const p = probabilities + c * kScorers;
    store(p, Load<kScorers>(p) / sum);
  }
}

}  // namespace

OnlineClassifier::OnlineClassifier(size_t classes, std::vector<float> class_weights)
    : OnlineLearner(ColumnsFor(classes)),
      classes_(classes),
      class_weights_(std::move(class_weights)),
      prior_(columns()),
      probabilities_(std::max<size_t>(columns(), 2) * kLanes),
      of_all_(std::max<size_t>(columns(), 2)) {
  MILLRACE_CHECK(classes >= 2);
  MILLRACE_CHECK(class_weights_.empty() || class_weights_.size() == classes);
}

void OnlineClassifier::SetClassWeight(uint32_t label, float weight) {
  class_weights_.resize(classes_, 1.0f);
  class_weights_.at(label) = weight;
}

void OnlineClassifier::SetRace(const RaceView& race) {
  float least = race.losses[0];
  for (size_t e = 0; e < Race::kRacers; ++e) {
    if (takes_part(e)) least = std::min(least, race.losses[e]);
  }
  std::array<float, Race::kRacers> exponents;
  for (size_t e = 0; e < Race::kRacers; ++e) exponents[e] = least - race.losses[e];
  SetShares(exponents);
  SetPrior(race.counts);
}

void OnlineClassifier::SetPrior(std::span<const float> counts) {
  const auto odds = [&](size_t k) {
    return static_cast<float>(NaturalLog(static_cast<double>(Smoothed(counts[k]))));
  };
  if (columns() == 1) {
    prior_[0] = odds(1) - odds(0);
    return;
  }
  const auto log_total = static_cast<float>(NaturalLog(static_cast<double>(TotalOf(counts))));
  for (size_t k = 0; k < columns(); ++k) prior_[k] = odds(k) - log_total;
}

void OnlineClassifier::Test(std::span<const Term> terms, std::span<float> scores) {
  Score(terms, prior_);
  ToProbabilities<kLanes>(scores_, probabilities_.data());
  ToProbabilities<1>(together_, of_all_.data());
  if (scores.empty()) return;
  for (size_t k = 0; k < classes_; ++k) scores[k] = of_all_[LineOf(k)];
}

void OnlineClassifier::CountRace(uint32_t label, float weight, RaceView& race) const {
  constexpr auto kKept = static_cast<float>(1 - 1 / Race::kMemory);
  EightDoubles probabilities;
  probabilities.fill(1);
  static_assert(Race::kPrior <= probabilities.size());
  const auto set = [&](size_t racer, float probability) {
    const auto p = static_cast<double>(probability);
    probabilities[racer] = p > kLeastProbability ? p : kLeastProbability;  // (also what is NaN)
  };
  for (size_t e = 0; e < Race::kRates; ++e) set(e, ProbabilityOf(label, e));
  set(Race::kNewton, ProbabilityOf(label, kNewtonLane));
  const EightDoubles logs = NaturalLogs(probabilities);
  const auto add_loss = [&](size_t racer, double loss) {
    const float limited = std::min(kMostLoss, static_cast<float>(loss));
    race.losses[racer] = race.losses[racer] * kKept + weight * limited;
  };
  for (size_t e = 0; e < Race::kPrior; ++e) {
    if (takes_part(e)) add_loss(e, -logs[e]);
  }
  add_loss(Race::kPrior, LossOf(static_cast<double>(Smoothed(race.counts[label])) /
                                static_cast<double>(TotalOf(race.counts))));
  for (float& count : race.counts) count *= kKept;
  race.counts[label] += weight;
}

BatchLoss OnlineClassifier::LossOfRow(const Row& row) const {
  MILLRACE_CHECK(row.label < classes_);
  const auto weight = static_cast<double>(WeightOf(row.label));
  return {weight * LossOf(static_cast<double>(of_all_[LineOf(row.label)])), weight};
}

bool OnlineClassifier::Learn(std::span<const Term> terms, const Row& row, RaceView race) {
  MILLRACE_CHECK(row.label < classes_);
  const float weight = WeightOf(row.label);
  CountRace(row.label, weight, race);
  SetTerms(terms);
  for (size_t c = 0; c < columns(); ++c) {
    const bool is_labels = columns() == 1 ? row.label == 1 : row.label == c;
    const float target = is_labels ? 1.0f : 0.0f;
    const float p = of_all_[c];
    const Rates reach = AddCurvature(terms, c, weight * p * (1.0f - p));
    Move(terms, c, StepsOf(c, target, weight, reach));
    const float own = probabilities_[c * kLanes + kNewtonLane];
    SetNewtonStep(c, weight * own * (1.0f - own), weight * (target - own));
  }
  return true;
}

// The loss's own curvature makes a step shorter (an implicit step, to first order: Kulis and
// Bartlett 2010), so that no rate overshoots.
OnlineLearner::Rates OnlineClassifier::StepsOf(size_t column, float target, float weight,
                                               const Rates& reach) const {
  const float* __restrict const p = probabilities_.data() + column * kLanes;
  const float* __restrict const z = scores_.data() + column * kLanes;
  Rates steps;
  for (size_t e = 0; e < kLanes; ++e) {
    const float weighted_reach = weight * reach.of[e];
    const float slope = p[e] - target;
    const float longest = std::abs(z[e]) + kLongestStep;
    const float shorter = std::max(1.0f + p[e] * (1.0f - p[e]) * weighted_reach,
                                   std::abs(slope) * weighted_reach / longest);
    const float step = weight * rates().of[e] * slope / shorter;
    steps.of[e] = kRateOfLane[e] > 0 ? step : 0.0f;
  }
  return steps;
}

}  // namespace millrace
