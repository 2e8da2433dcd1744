// A bijection of 64-bit numbers that leaves no pattern.
#pragma once

#include <cstdint>

namespace millrace {

// One step of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// 2014).
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace millrace
