// Memory that will be needed soon.
#pragma once

#include <cstddef>

namespace millrace {

// Asks for these bytes, so that who comes back after some other work need not wait for them. (GCC
// drops a call that it does not inline, for want of an effect.)
[[gnu::always_inline]] inline void Prefetch(const std::byte* begin, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  for (size_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(begin + i);
}

}  // namespace millrace
