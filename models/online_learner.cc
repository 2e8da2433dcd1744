#include "models/online_learner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "models/newton_racer.h"
#include "models/rate_lanes.h"

namespace millrace {
namespace {

using Race = OnlineRace;

// Adds the scores of kColumns columns from `column` on.
template <size_t kColumns>
void AddScores(std::span<const OnlineLearner::Term> terms, size_t column, float* scores) {
  std::array<RateLanes, kColumns> sums{};
  for (const OnlineLearner::Term& term : terms) {
    const float* const weights = term.block + column * kRateLanes;
    for (size_t c = 0; c < kColumns; ++c)
      sums[c] += Load<kRateLanes>(weights + c * kRateLanes) * term.x;
  }
  for (size_t c = 0; c < kColumns; ++c) {
    StoreFirst<kRateLanes, kRateLanes>(scores + (column + c) * kRateLanes, sums[c]);
  }
}

}  // namespace

OnlineLearner::OnlineLearner(size_t columns)
    : scores_(columns * kRateLanes), together_(columns), columns_(columns), steps_(columns) {}

void OnlineLearner::SetShares(const std::array<float, Race::kRacers>& exponents) {
  constexpr size_t kAtOnce = std::bit_ceil(Race::kRacers);
  Lanes<kAtOnce> of_racers = Lanes<kAtOnce>{} - 100.0f;
  for (size_t e = 0; e < Race::kRacers; ++e) {
    if (takes_part(e)) of_racers[e] = exponents[e];
  }
  const Lanes<kAtOnce> shares = ExpOfNegative<kAtOnce>(of_racers);
  float sum = 0;
  for (size_t e = 0; e < Race::kRacers; ++e) sum += shares[e];
  for (size_t e = 0; e < Race::kRacers; ++e) shares_[e] = shares[e] / sum;
  prior_share_ = shares_[Race::kPrior];
  for (size_t e = 0; e < Race::kRates; ++e) {
    if (Race::BeginsAtPrior(e)) prior_share_ += shares_[e];
  }
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
    float* const scores = scores_.data() + c * kRateLanes;
    scores[kNewtonLane] = newton_ == nullptr ? 0.0f : newton_->Score(c);
    float together = prior_share_ * prior[c] + shares_[Race::kNewton] * scores[kNewtonLane];
    for (size_t e = 0; e < Race::kRates; ++e) {
      together += shares_[e] * scores[e];
      if (Race::BeginsAtPrior(e)) scores[e] += prior[c];
    }
    together_[c] = together;
  }
}

void OnlineLearner::SetTerms(std::span<const Term> terms) {
  squares_.resize(terms.size());
  roots_.resize(terms.size());
  sum_of_squares_ = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    squares_[i] = terms[i].x * terms[i].x;
    sum_of_squares_ += squares_[i];
  }
  const RateLanes rates = Load<kRateLanes>(kRateOfLane.data());
  const float most_constant = Race::kMostReach / sum_of_squares_;
  const RateLanes most = ByKind(most_constant, std::numeric_limits<float>::max());
  StoreFirst<kRateLanes, kRateLanes>(rates_.of.data(), rates < most ? rates : most);
}

OnlineLearner::Rates OnlineLearner::AddCurvature(std::span<const Term> terms, size_t column,
                                                 float curvature) {
  MILLRACE_CHECK(roots_.size() == terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    float& sum = terms[i].block[column * kRateLanes + Race::kCurvature];
    sum += curvature * squares_[i];
    roots_[i] = sum;
  }
  // By itself, so that roots are taken eight at a time.
  for (float& root : roots_) root = 1.0f / std::sqrt(Race::Positive(root));
  float rooted_squares = 0;
  for (size_t i = 0; i < terms.size(); ++i) rooted_squares += squares_[i] * roots_[i];
  steps_[column].rates = rates_;
  steps_[column].curvature = curvature;
  Rates reach;
  StoreFirst<kRateLanes, kRateLanes>(reach.of.data(), Load<kRateLanes>(rates_.of.data()) *
                                                          ByKind(sum_of_squares_, rooted_squares));
  return reach;
}

void OnlineLearner::Move(std::span<const Term> terms, size_t column, const Rates& moves) {
  const RateLanes step = Load<kRateLanes>(moves.of.data());
  for (size_t i = 0; i < terms.size(); ++i) {
    float* const weights = terms[i].block + column * kRateLanes;
    const float x = terms[i].x;
    const RateLanes moved = Load<kRateLanes>(weights) - step * ByKind(x, x * roots_[i]);
    StoreFirst<kRateLanes, kRateLanes>(weights, moved);
  }
  steps_[column].moves = moves;
}

}  // namespace millrace
