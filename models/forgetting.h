// What an online learner forgets when the stream has changed, so that it learns the new one faster.
#pragma once

#include <cstdint>
#include <span>

namespace millrace {

// Most of the curvature of each weight, so that rates that are divided by its root become longer at
// once, and most of the racers' losses, so that those count most that they make from here on
// (OnlineRace). docs/learning.md has what that gains. Elementwise, so that each range of keys can
// forget separately.
struct OnlineForgetting {
  static constexpr float kKeptOfCurvature = 1.0f / 64;
  static constexpr float kKeptOfLosses = 1.0f / 16;

  // Keys before this one are weights of OnlineRace::kValues floats each; there the race begins.
  uint64_t weights_end = 0;
  // The sums of NewtonRacer from here on, if any. A and b shrink alike: the weights stay, and new
  // rows count more.
  uint64_t newton_begin = UINT64_MAX;
  // Whether the race forgets, too. Not where changes are still under way that were made of it as it
  // was: they subtract a part of it (OnlineSoftmax::Learn).
  bool race = true;

  // Of the parameters from key `begin` on.
  void Forget(uint64_t begin, std::span<float> parameters) const;
  // An embedding row, which has missed so many of them, >= 1. The same bits as if it had missed
  // none.
  static void ForgetRow(double times, std::span<float> values);
};

}  // namespace millrace
