// A number that nobody else has drawn.
#pragma once

#include <cstdint>
#include <random>

namespace millrace {

// 64 bits from the operating system, for what must differ from process to process. Thread-safe.
inline uint64_t RandomNumber() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace millrace
