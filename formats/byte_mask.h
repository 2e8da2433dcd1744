// Bytes by blocks of 64, with vector instructions on every target: compilers take apart loops over
// single bytes in ways that are several times slower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace millrace {

// 16 unsigned bytes. Comparisons give 0xFF where they hold, else 0.
using Bytes16 = uint8_t __attribute__((vector_size(16)));

inline Bytes16 LoadBytes16(const char* p) {
  Bytes16 bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  return bytes;
}

inline void StoreBytes16(Bytes16 bytes, char* p) { std::memcpy(p, &bytes, sizeof(bytes)); }

// Bit i of the result is the highest bit of byte i.
inline uint32_t HighBits(Bytes16 bytes) {
#ifdef __SSE2__
  return static_cast<uint32_t>(_mm_movemask_epi8(reinterpret_cast<__m128i>(bytes)));
#else
  uint64_t halves[2];
  std::memcpy(halves, &bytes, sizeof(halves));
  // The product gathers the high bits of eight bytes in its highest byte, the first one lowest.
  const auto gather = [](uint64_t eight) {
    return static_cast<uint32_t>(((eight >> 7 & 0x0101010101010101) * 0x0102040810204080) >> 56);
  };
  return gather(halves[0]) | gather(halves[1]) << 8;
#endif
}

// Bit i of the result says whether the test holds for p[i], i < 64; test(Bytes16) gives 0xFF for
// the bytes for which it does, else 0.
template <typename Test>
inline uint64_t ByteMask(const char* p, Test test) {
  uint64_t mask = 0;
  for (size_t i = 0; i < 4; ++i) {
    mask |= uint64_t{HighBits(reinterpret_cast<Bytes16>(test(LoadBytes16(p + 16 * i))))} << 16 * i;
  }
  return mask;
}

}  // namespace millrace
