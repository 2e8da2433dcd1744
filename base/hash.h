// Hashes that are the same on every machine and in every version: logs and stores contain them.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// One step of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// 2014): a bijection that leaves no pattern.
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// From a hash to a float of [-1, 1): even steps, by the 24 bits that a float has.
constexpr float EvenlyFrom(uint64_t hash) {
  return static_cast<float>(hash >> 40) * 0x1p-23f - 1.0f;
}

// FNV-1a (Fowler, Noll, Vo), 64 bits; `hash` is the hash of the bytes before these.
constexpr uint64_t Fnv1a64(std::string_view bytes, uint64_t hash = 14695981039346656037u) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

}  // namespace millrace
