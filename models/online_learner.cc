#include "models/online_learner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "models/lanes.h"
#include "models/portable_math.h"

namespace millrace {
namespace {

using Race = OnlineRace;
constexpr size_t kConstantRates = Race::kConstant.size();
constexpr size_t kMixture = Race::kRates;  // the lane of all racers together

constexpr std::array<float, Race::kRates> kRateOf = [] {
  std::array<float, Race::kRates> rates{};
  for (size_t e = 0; e < Race::kRates; ++e) {
    rates[e] = e < kConstantRates ? Race::kConstant[e] : Race::kDecaying[e - kConstantRates];
  }
  return rates;
}();

// What is added to each count, so that no class is impossible.
constexpr float kUnseen = 0.5f;
// A count may fall below 0: workers subtract what they forget of a count that they know late.
float Smoothed(float count) { return std::max(count, 0.0f) + kUnseen; }
float TotalOf(std::span<const float> counts) {
  float total = 0;
  for (const float count : counts) total += Smoothed(count);
  return total;
}

// (Below 0 is none: who wrote the job's topics may have made it up.)
float RootOf(float curvature) {
  return std::sqrt(std::max(curvature, 0.0f) + Race::kFirstCurvature);
}

// Whose logarithm is still finite.
constexpr double kLeastProbability = 1e-30;

double LossOf(double probability) { return -NaturalLog(std::max(probability, kLeastProbability)); }

}  // namespace

OnlineLearner::OnlineLearner(size_t classes, std::vector<float> class_weights)
    : classes_(classes),
      columns_(ColumnsFor(classes)),
      class_weights_(std::move(class_weights)),
      prior_(columns_),
      scores_(columns_ * kLanes),
      probabilities_(std::max<size_t>(columns_, 2) * kLanes) {
  static_assert(Race::kRates + 1 <= kLanes);
  MILLRACE_CHECK(classes >= 2);
  MILLRACE_CHECK(class_weights_.empty() || class_weights_.size() == classes);
}

// Exponential weights (Vovk 1990) on the discounted losses.
void OnlineLearner::SetRace(const RaceView& race) {
  const float least = *std::ranges::min_element(race.losses);
  Lanes<kLanes> exponents = Lanes<kLanes>{} - 100.0f;
  for (size_t e = 0; e < Race::kRacers; ++e) exponents[e] = least - race.losses[e];
  const Lanes<kLanes> shares = ExpOfNegative<kLanes>(exponents);
  float sum = 0;
  for (size_t e = 0; e < Race::kRacers; ++e) sum += shares[e];
  for (size_t e = 0; e < Race::kRacers; ++e) shares_[e] = shares[e] / sum;
  SetPrior(race.counts);
}

void OnlineLearner::SetPrior(std::span<const float> counts) {
  const auto odds = [&](size_t k) {
    return static_cast<float>(NaturalLog(static_cast<double>(Smoothed(counts[k]))));
  };
  if (columns_ == 1) {
    prior_[0] = odds(1) - odds(0);
    return;
  }
  const auto log_total = static_cast<float>(NaturalLog(static_cast<double>(TotalOf(counts))));
  for (size_t k = 0; k < columns_; ++k) prior_[k] = odds(k) - log_total;
}

void OnlineLearner::Mix(const float* block, std::span<float> weights) const {
  for (size_t c = 0; c < columns_; ++c) {
    float sum = 0;
    for (size_t e = 0; e < Race::kRates; ++e) sum += shares_[e] * block[c * Race::kValues + e];
    weights[c] = sum;
  }
}

void OnlineLearner::Test(std::span<const Term> terms, std::span<float> scores) {
  std::ranges::fill(scores_, 0.0f);
  for (const Term& term : terms) {
    const float x = term.x;
    for (size_t c = 0; c < columns_; ++c) {
      const float* const weights = term.block + c * Race::kValues;
      float* const sums = scores_.data() + c * kLanes;
      for (size_t e = 0; e < Race::kRates; ++e) sums[e] += weights[e] * x;
    }
  }
  for (size_t c = 0; c < columns_; ++c) {
    float* const sums = scores_.data() + c * kLanes;
    float together = PriorScore(c);
    for (size_t e = 0; e < Race::kRates; ++e) together += shares_[e] * sums[e];
    sums[kMixture] = together;
  }
  ToProbabilities();
  if (scores.empty()) return;
  for (size_t k = 0; k < classes_; ++k) scores[k] = ProbabilityOf(k, kMixture);
}

void OnlineLearner::ToProbabilities() {
  using Floats = Lanes<kLanes>;
  if (columns_ == 1) {
    const Floats z = Load<kLanes>(scores_.data());
    const Floats e = ExpOfNegative<kLanes>(z > 0.0f ? -z : z);
    const Floats likelier = 1.0f / (e + 1.0f);
    const Floats unlikelier = e / (e + 1.0f);  // not the rest of 1, which has fewer digits
    StoreFirst<kLanes, kLanes>(probabilities_.data(), z > 0.0f ? likelier : unlikelier);
    StoreFirst<kLanes, kLanes>(probabilities_.data() + kLanes, z > 0.0f ? unlikelier : likelier);
    return;
  }
  Floats largest = Load<kLanes>(scores_.data());
  for (size_t c = 1; c < columns_; ++c) {
    largest = Max<kLanes>(largest, Load<kLanes>(scores_.data() + c * kLanes));
  }
  Floats sum = {};
  for (size_t c = 0; c < columns_; ++c) {
    const Floats e = ExpOfNegative<kLanes>(Load<kLanes>(scores_.data() + c * kLanes) - largest);
    StoreFirst<kLanes, kLanes>(probabilities_.data() + c * kLanes, e);
    sum += e;
  }
  for (size_t c = 0; c < columns_; ++c) {
    float* const p = probabilities_.data() + c * kLanes;
    StoreFirst<kLanes, kLanes>(p, Load<kLanes>(p) / sum);
  }
}

void OnlineLearner::CountRace(uint32_t label, float weight, RaceView& race) const {
  constexpr auto kKept = static_cast<float>(1 - 1 / Race::kMemory);
  const auto loss_of = [](float probability) {
    return std::min(Race::kMostLoss, static_cast<float>(LossOf(static_cast<double>(probability))));
  };
  for (size_t e = 0; e < Race::kRates; ++e) {
    race.losses[e] = race.losses[e] * kKept + weight * loss_of(ProbabilityOf(label, e));
  }
  float& prior = race.losses[Race::kRacers - 1];
  prior = prior * kKept + weight * loss_of(Smoothed(race.counts[label]) / TotalOf(race.counts));
  for (float& count : race.counts) count *= kKept;
  race.counts[label] += weight;
}

BatchLoss OnlineLearner::LossOfRow(uint32_t label) const {
  MILLRACE_CHECK(label < classes_);
  const auto weight = static_cast<double>(WeightOf(label));
  return {weight * LossOf(static_cast<double>(ProbabilityOf(label, kMixture))), weight};
}

void OnlineLearner::Learn(std::span<const Term> terms, uint32_t label, RaceView race) {
  MILLRACE_CHECK(label < classes_);
  const float weight = WeightOf(label);
  CountRace(label, weight, race);
  float squares = 0;
  for (const Term& term : terms) squares += term.x * term.x;
  roots_.resize(terms.size());
  for (size_t c = 0; c < columns_; ++c) {
    const bool is_labels = columns_ == 1 ? label == 1 : label == c;
    LearnColumn(terms, c, is_labels ? 1.0f : 0.0f, weight, squares);
  }
}

void OnlineLearner::LearnColumn(std::span<const Term> terms, size_t column, float target,
                                float weight, float squares) {
  const float p = probabilities_[column * kLanes + kMixture];
  const float curvature = weight * p * (1.0f - p);
  const float joint = curvature * squares;
  float rooted_squares = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const float square = terms[i].x * terms[i].x;
    float& sum = terms[i].block[column * Race::kValues + Race::kCurvature];
    sum += curvature * square;
    terms[i].joint[column] += joint;
    roots_[i] = 1.0f / RootOf(sum);
    rooted_squares += square * roots_[i];
  }
  const std::array<float, Race::kRates> steps =
      StepsOf(column, target, weight, squares, rooted_squares);
  for (size_t i = 0; i < terms.size(); ++i) {
    float* const weights = terms[i].block + column * Race::kValues;
    const float x = terms[i].x;
    const float rooted = x * roots_[i];
    for (size_t e = 0; e < kConstantRates; ++e) weights[e] -= steps[e] * x;
    for (size_t e = kConstantRates; e < Race::kRates; ++e) weights[e] -= steps[e] * rooted;
  }
}

// The loss's own curvature makes a step shorter (an implicit step, to first order: Kulis and
// Bartlett 2010), so that no rate overshoots.
std::array<float, OnlineRace::kRates> OnlineLearner::StepsOf(size_t column, float target,
                                                             float weight, float squares,
                                                             float rooted_squares) const {
  const float* const p = probabilities_.data() + column * kLanes;
  const float* const z = scores_.data() + column * kLanes;
  std::array<float, Race::kRates> steps;
  for (size_t e = 0; e < Race::kRates; ++e) {
    const float reach = weight * kRateOf[e] * (e < kConstantRates ? squares : rooted_squares);
    const float slope = p[e] - target;
    const float longest = std::abs(z[e]) + Race::kLongestStep;
    const float shorter =
        std::max(1.0f + p[e] * (1.0f - p[e]) * reach, std::abs(slope) * reach / longest);
    steps[e] = weight * kRateOf[e] * slope / shorter;
  }
  return steps;
}

// A batch moves a weight by 1 - q of the way to what its rows ask for, q = exp(-rate x curvature).
// `concurrent` batches, one after the other, would move it by 1 - q^concurrent; their changes, made
// side by side, add up to concurrent (1 - q). The factor is the ratio of the two, which is the mean
// of the powers q^0 to q^(concurrent - 1). (The curvature that counts is the joint one of all of a
// row's features, since they move the same score.)
std::array<float, OnlineRace::kRates> DampingOf(const float* first, const float* last, float joint,
                                                uint32_t concurrent) {
  std::array<float, Race::kRates> factors;
  if (concurrent <= 1 || joint <= 0) {
    factors.fill(1.0f);
    return factors;
  }
  // The mean of 1 / root on the way from one curvature to the other: 2 (root of the one - root of
  // the other) / difference, without the difference, which may be lost in rounding.
  const float rooted = 2.0f / (RootOf(first[Race::kCurvature]) + RootOf(last[Race::kCurvature]));
  constexpr size_t kLanes = 8;
  using Floats = Lanes<kLanes>;
  Floats exponents = {};
  for (size_t e = 0; e < Race::kRates; ++e) {
    exponents[e] = -kRateOf[e] * joint * (e < kConstantRates ? 1.0f : rooted);
  }
  // The sum of `concurrent` powers by doubling: S(2n) = S(n) (1 + q^n), S(n + 1) = 1 + q S(n).
  const Floats q = ExpOfNegative<kLanes>(exponents);
  Floats sum = Floats{} + 1.0f;
  Floats power = q;  // q^n
  for (int bit = 30 - __builtin_clz(concurrent); bit >= 0; --bit) {
    sum *= power + 1.0f;
    power *= power;
    if ((concurrent >> static_cast<unsigned>(bit) & 1u) == 0) continue;
    sum = sum * q + 1.0f;
    power *= q;
  }
  for (size_t e = 0; e < Race::kRates; ++e) factors[e] = sum[e] / static_cast<float>(concurrent);
  return factors;
}

}  // namespace millrace
