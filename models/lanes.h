// Short vectors of floats, one lane per class or per row, in GCC's portable vector types: the same
// operations in the same order, hence the same bytes, whichever instruction set they become.
// Internal to models/.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

// Vectors are passed to inlined functions only, so that the calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace millrace {

template <size_t kLanes>
struct LanesOf {
  static_assert(std::has_single_bit(kLanes));
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
  typedef uint32_t Bits __attribute__((vector_size(kLanes * sizeof(uint32_t))));
};
template <size_t kLanes>
using Lanes = typename LanesOf<kLanes>::Floats;

template <size_t kLanes>
[[gnu::always_inline]] inline Lanes<kLanes> Load(const float* from) {
  Lanes<kLanes> lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

template <size_t kLanes, size_t... kIndex>
[[gnu::always_inline]] inline void SplitInHalves(const Lanes<kLanes>& lanes, Lanes<kLanes / 2>& low,
                                                 Lanes<kLanes / 2>& high,
                                                 std::index_sequence<kIndex...>) {
  low = __builtin_shufflevector(lanes, lanes, kIndex...);
  high = __builtin_shufflevector(lanes, lanes, (kLanes / 2 + kIndex)...);
}

// Stores the first kCount lanes, and nothing after them.
template <size_t kCount, size_t kLanes>
[[gnu::always_inline]] inline void StoreFirst(float* to, const Lanes<kLanes>& lanes) {
  constexpr size_t kHalf = kLanes / 2;
  if constexpr (kCount == kLanes) {
    std::memcpy(to, &lanes, sizeof(lanes));
  } else if constexpr (kCount == 1) {
    *to = lanes[0];
  } else {
    static_assert(kCount < kLanes);
    Lanes<kHalf> low;
    Lanes<kHalf> high;
    SplitInHalves<kLanes>(lanes, low, high, std::make_index_sequence<kHalf>());
    StoreFirst<(kCount < kHalf ? kCount : kHalf), kHalf>(to, low);
    if constexpr (kCount > kHalf) StoreFirst<kCount - kHalf, kHalf>(to + kHalf, high);
  }
}

template <size_t kLanes>
[[gnu::always_inline]] inline Lanes<kLanes> Max(const Lanes<kLanes>& a, const Lanes<kLanes>& b) {
  return a > b ? a : b;
}

// e^x for x <= 0, to 2 units in the last place; 0 below -87 (where the result would be subnormal);
// NaN for NaN. The method is that of Cephes: x = n ln 2 + r, a polynomial in r, n into the
// exponent. Not libm's, whose last bit differs between processors.
template <size_t kLanes>
[[gnu::always_inline]] inline Lanes<kLanes> ExpOfNegative(const Lanes<kLanes>& x) {
  using Floats = Lanes<kLanes>;
  using Bits = typename LanesOf<kLanes>::Bits;
  constexpr float kSmallest = -87.0f;
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const Floats zero = {};
  const Floats clamped = x < kSmallest ? zero + kSmallest : x;
  const Floats rounded = clamped * kLog2E + kRounder;
  const Floats n = rounded - kRounder;
  const Floats r = (clamped - n * kLn2High) - n * kLn2Low;
  Floats p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  Bits bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  bits = (bits + 127u) << 23;  // 2^n; what kRounder has above the low bits is shifted out
  Floats scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return x < kSmallest ? zero : p * scale;
}

}  // namespace millrace
