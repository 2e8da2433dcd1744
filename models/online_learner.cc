#include "models/online_learner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/lanes.h"

namespace millrace {
namespace {

using Race = OnlineRace;
constexpr size_t kConstantRates = Race::kConstant.size();

constexpr size_t kLanes = OnlineLearner::kLanes;
using Floats = Lanes<kLanes>;

// `of_constant` in the lanes of constant rates, `of_decaying` in all others.
[[gnu::always_inline]] inline Floats ByKind(float of_constant, float of_decaying) {
  Floats kind = {};  // 1 where it is constant
  for (size_t e = 0; e < kConstantRates; ++e) kind[e] = 1;
  return kind > 0.5f ? Floats{} + of_constant : Floats{} + of_decaying;
}

// (Below 0 is none: who wrote the job's topics may have made it up.)
float Positive(float curvature) { return std::max(curvature, 0.0f) + Race::kFirstCurvature; }

// Adds the scores of kColumns columns from `column` on.
template <size_t kColumns>
void AddScores(std::span<const OnlineLearner::Term> terms, size_t column, float* scores) {
  std::array<Floats, kColumns> sums{};
  for (const OnlineLearner::Term& term : terms) {
    const float* const weights = term.block + column * kLanes;
    for (size_t c = 0; c < kColumns; ++c) sums[c] += Load<kLanes>(weights + c * kLanes) * term.x;
  }
  for (size_t c = 0; c < kColumns; ++c) {
    StoreFirst<kLanes, kLanes>(scores + (column + c) * kLanes, sums[c]);
  }
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
  constexpr size_t kAtOnce = 4;  // sums that stay in registers
  size_t column = 0;
  for (; column + kAtOnce <= columns_; column += kAtOnce) {
    AddScores<kAtOnce>(terms, column, scores_.data());
  }
  for (; column < columns_; ++column) AddScores<1>(terms, column, scores_.data());
  for (size_t c = 0; c < columns_; ++c) {
    float* const sums = scores_.data() + c * kLanes;
    float together = prior[c];
    for (size_t e = 0; e < Race::kRates; ++e) together += shares_[e] * sums[e];
    sums[kMixture] = together;
  }
}

void OnlineLearner::SetTerms(std::span<const Term> terms) {
  squares_.resize(terms.size());
  alike_.resize(terms.size());
  roots_.resize(terms.size());
  common_.resize(terms.size());
  sum_of_squares_ = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    squares_[i] = terms[i].x * terms[i].x;
    sum_of_squares_ += squares_[i];
    alike_[i] = terms[i].alike;
  }
}

// The bias has a feature of each row. So beside its curvature that of another feature is its square
// in an average row.
OnlineLearner::Rates OnlineLearner::AddCurvature(std::span<const Term> terms, size_t column,
                                                 float curvature) {
  MILLRACE_CHECK(roots_.size() == terms.size() && !terms.empty());
  for (size_t i = 0; i < terms.size(); ++i) {
    float& sum = terms[i].block[column * kLanes + Race::kCurvature];
    sum += curvature * squares_[i];
    roots_[i] = sum;
  }
  // By itself, so that roots and quotients are taken eight at a time.
  const float of_bias = 1.0f / Positive(roots_.back());
  for (size_t i = 0; i < terms.size(); ++i) {
    common_[i] = alike_[i] * std::min(squares_[i], Positive(roots_[i]) * of_bias);
    roots_[i] = 1.0f / std::sqrt(Positive(roots_[i]));
  }
  float rooted_squares = 0;
  float common = 0;
  float rooted_common = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    rooted_squares += squares_[i] * roots_[i];
    common += common_[i];
    rooted_common += common_[i] * roots_[i];
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    float* const values = terms[i].block + column * kLanes;
    const float own = squares_[i] - common_[i];  // all of it, where the other row has the feature
    values[kJoint] += curvature * (common + own);
    values[kJointDecaying] += curvature * (rooted_common + own * roots_[i]);
  }
  Rates reach;
  StoreFirst<kLanes, kLanes>(
      reach.of.data(), Load<kLanes>(kRateOfLane.data()) * ByKind(sum_of_squares_, rooted_squares));
  return reach;
}

void OnlineLearner::Move(std::span<const Term> terms, size_t column, const Rates& steps) const {
  const Floats step = Load<kLanes>(steps.of.data());
  for (size_t i = 0; i < terms.size(); ++i) {
    float* const weights = terms[i].block + column * kLanes;
    const float x = terms[i].x;
    const Floats moved = Load<kLanes>(weights) - step * ByKind(x, x * roots_[i]);
    StoreFirst<kLanes, kLanes>(weights, moved);
  }
}

// A batch moves a weight by 1 - q of the way to what its rows ask for, q = exp(-rate x curvature).
// `concurrent` batches, one after the other, would move it by 1 - q^concurrent; their changes, made
// side by side, add up to concurrent (1 - q). The factor is the ratio of the two, which is the mean
// of the powers q^0 to q^(concurrent - 1). (The curvature that counts is the joint one of all
// features that two rows have in common, since those move both scores.)
std::array<float, OnlineRace::kRates> DampingOf(float joint, float joint_decaying,
                                                uint32_t concurrent) {
  std::array<float, Race::kRates> factors;
  if (concurrent <= 1 || joint <= 0) {
    factors.fill(1.0f);
    return factors;
  }
  const Floats exponents =
      -Load<kLanes>(OnlineLearner::kRateOfLane.data()) * ByKind(joint, joint_decaying);
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
