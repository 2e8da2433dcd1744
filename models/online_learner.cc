#include "models/online_learner.h"

#include <algorithm>
#include <cmath>

#include "models/lanes.h"

namespace millrace {
namespace {

using Race = OnlineRace;
constexpr size_t kConstantRates = Race::kConstant.size();

// (Below 0 is none: who wrote the job's topics may have made it up.)
float RootOf(float curvature) {
  return std::sqrt(std::max(curvature, 0.0f) + Race::kFirstCurvature);
}

}  // namespace

OnlineLearner::OnlineLearner(size_t columns) : scores_(columns * kLanes), columns_(columns) {
  static_assert(Race::kRates + 1 <= kLanes);
}

void OnlineLearner::SetShares(const std::array<float, Race::kRacers>& exponents) {
  Lanes<kLanes> of_racers = Lanes<kLanes>{} - 100.0f;
  for (size_t e = 0; e < Race::kRacers; ++e) of_racers[e] = exponents[e];
  const Lanes<kLanes> shares = ExpOfNegative<kLanes>(of_racers);
  float sum = 0;
  for (size_t e = 0; e < Race::kRacers; ++e) sum += shares[e];
  for (size_t e = 0; e < Race::kRacers; ++e) shares_[e] = shares[e] / sum;
}

void OnlineLearner::Mix(const float* block, std::span<float> weights) const {
  for (size_t c = 0; c < columns_; ++c) {
    float sum = 0;
    for (size_t e = 0; e < Race::kRates; ++e) sum += shares_[e] * block[c * Race::kValues + e];
    weights[c] = sum;
  }
}

void OnlineLearner::Score(std::span<const Term> terms, std::span<const float> prior) {
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
    float together = prior[c];
    for (size_t e = 0; e < Race::kRates; ++e) together += shares_[e] * sums[e];
    sums[kMixture] = together;
  }
}

float OnlineLearner::SquaresOf(std::span<const Term> terms) {
  float squares = 0;
  for (const Term& term : terms) squares += term.x * term.x;
  return squares;
}

OnlineLearner::Reach OnlineLearner::AddCurvature(std::span<const Term> terms, size_t column,
                                                 float curvature, float squares) {
  const float joint = curvature * squares;
  roots_.resize(terms.size());
  float rooted_squares = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const float square = terms[i].x * terms[i].x;
    float& sum = terms[i].block[column * Race::kValues + Race::kCurvature];
    sum += curvature * square;
    terms[i].joint[column] += joint;
    roots_[i] = 1.0f / RootOf(sum);
    rooted_squares += square * roots_[i];
  }
  return {squares, rooted_squares};
}

void OnlineLearner::Move(std::span<const Term> terms, size_t column, const Rates& steps) const {
  for (size_t i = 0; i < terms.size(); ++i) {
    float* const weights = terms[i].block + column * Race::kValues;
    const float x = terms[i].x;
    const float rooted = x * roots_[i];
    for (size_t e = 0; e < kConstantRates; ++e) weights[e] -= steps[e] * x;
    for (size_t e = kConstantRates; e < Race::kRates; ++e) weights[e] -= steps[e] * rooted;
  }
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
    exponents[e] = -Race::kRateOf[e] * joint * (e < kConstantRates ? 1.0f : rooted);
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
