// A fuzz target's input as a sequence of small decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace millrace::fuzz {

// At its end every decision is 0, which is to be the plain choice. Not thread-safe.
class ByteSource {
 public:
  ByteSource(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // In [0, n). REQUIRES 1 <= n; of more than 65,536 only so many are reached.
  size_t Below(size_t n) {
    size_t value = Byte();
    if (n > 256) value = value << 8 | Byte();
    return value % n;
  }
  // True for so many of 256 values of a byte.
  bool Chance(unsigned of_256) { return !empty() && Byte() < of_256; }
  uint64_t Number() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return value;
  }
  // At most `most` bytes: their number comes first.
  std::string_view Text(size_t most = 255) {
    const std::string_view text = rest_.substr(0, Below(most + 1));
    rest_.remove_prefix(text.size());
    return text;
  }
  std::string_view Rest() { return std::exchange(rest_, {}); }

 private:
  std::string_view rest_;
};

}  // namespace millrace::fuzz
