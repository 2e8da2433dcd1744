// MurmurHash3_x86_32 by Austin Appleby (public domain, github.com/aappleby/smhasher), with seed 0:
// what scikit-learn's murmurhash3_32 computes, as a signed number like there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace {
namespace murmur3 {

inline uint32_t Load(const char* p) {
  static_assert(std::endian::native == std::endian::little, "blocks are little-endian numbers");
  uint32_t block;
  std::memcpy(&block, p, 4);
  return block;
}

inline uint32_t Scramble(uint32_t k) { return std::rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u; }

inline uint32_t MixBlock(uint32_t h, uint32_t k) {
  return std::rotl(h ^ Scramble(k), 13) * 5 + 0xe6546b64u;
}

inline uint32_t Finish(uint32_t h, size_t size) {
  h ^= static_cast<uint32_t>(size);
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

}  // namespace murmur3

// The hash of p[0, size). p[size, size + 12) must be readable too: with that, short keys (nearly
// all words) are hashed without a branch that depends on their size.
inline int32_t Murmur3Padded(const char* p, size_t size) {
  const size_t tail = size & 3;
  uint32_t h = 0;
  if (size < 16) {
    const size_t blocks = size / 4;
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t use = 0u - static_cast<uint32_t>(i < blocks);
      h ^= (h ^ murmur3::MixBlock(h, murmur3::Load(p + 4 * i))) & use;
    }
    p += 4 * blocks;
  } else {
    for (size_t i = 0; i < size / 4; ++i, p += 4) h = murmur3::MixBlock(h, murmur3::Load(p));
  }
  // The bytes of an incomplete block; without any, this changes nothing.
  h ^= murmur3::Scramble(murmur3::Load(p) & ((1u << (8 * tail)) - 1));
  return static_cast<int32_t>(murmur3::Finish(h, size));
}

inline int32_t Murmur3(std::string_view key) {
  const char* p = key.data();
  uint32_t h = 0;
  for (size_t i = 0; i < key.size() / 4; ++i, p += 4) h = murmur3::MixBlock(h, murmur3::Load(p));
  char last[4] = {0, 0, 0, 0};
  std::memcpy(last, p, key.size() & 3);
  h ^= murmur3::Scramble(murmur3::Load(last));
  return static_cast<int32_t>(murmur3::Finish(h, key.size()));
}

}  // namespace millrace
