#include "models/forgetting.h"

#include <algorithm>
#include <cmath>

#include "models/online_learner.h"

namespace millrace {
namespace {

// So often that nothing is left of any float.
constexpr double kMostTimes = 64;

bool IsCurvature(uint64_t key) { return key % OnlineRace::kValues == OnlineRace::kCurvature; }

}  // namespace

void OnlineForgetting::Forget(uint64_t begin, std::span<float> parameters) const {
  for (uint64_t i = 0; i < parameters.size(); ++i) {
    const uint64_t key = begin + i;
    if (key < weights_end) {
      if (IsCurvature(key)) parameters[i] *= kKeptOfCurvature;
    } else if (key >= newton_begin) {
      parameters[i] *= kKeptOfCurvature;
    } else if (race && key - weights_end < OnlineRace::kRacers) {
      parameters[i] *= kKeptOfLosses;
    }
  }
}

void OnlineForgetting::ForgetRow(double times, std::span<float> values) {
  const int rounds = times > 0 ? static_cast<int>(std::ceil(std::min(times, kMostTimes))) : 0;
  for (int done = 0; done < rounds; ++done) {
    for (uint64_t i = 0; i < values.size(); ++i) {
      if (IsCurvature(i)) values[i] *= kKeptOfCurvature;
    }
  }
}

}  // namespace millrace
