// A number for each rate of the online learner, as one vector. Internal to models/.
#pragma once

#include <cstddef>

#include "models/lanes.h"
#include "models/online_learner.h"

namespace millrace {

inline constexpr size_t kRateLanes = OnlineLearner::kLanes;
using RateLanes = Lanes<kRateLanes>;

// `of_constant` in the lanes of constant rates, `of_decaying` in all others.
[[gnu::always_inline]] inline RateLanes ByKind(float of_constant, float of_decaying) {
  RateLanes is_constant = {};
  for (size_t e = 0; e < OnlineRace::kConstant.size(); ++e) is_constant[e] = 1;
  return is_constant > 0.5f ? RateLanes{} + of_constant : RateLanes{} + of_decaying;
}

}  // namespace millrace
