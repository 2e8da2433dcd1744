// The simulator's only source of randomness: one seed gives one run, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::simulation {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the standard library's distributions differ between
// implementations, so the few that are needed stand here. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }
  // In [0, n). REQUIRES n >= 1.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // In [low, high].
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  bool Chance(double probability) { return Uniform() < probability; }

  // A number that follows from numbers: data that does not depend on the order of draws.
  static uint64_t Hash(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return Mix(Mix(Mix(Mix(a) + b) + c) + d);
  }

 private:
  static uint64_t Mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace millrace::simulation
