// Values in Avro's binary encoding, by the specification's words.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace millrace {

// An int, a long, a length, or an index: zigzag, then seven bits a byte, the lowest first.
inline std::string AvroLong(int64_t value) {
  const uint64_t sign = value < 0 ? ~uint64_t{0} : 0;
  uint64_t bits = static_cast<uint64_t>(value) << 1 ^ sign;
  std::string bytes;
  for (; bits > 0x7F; bits >>= 7) bytes += static_cast<char>((bits & 0x7F) | 0x80);
  return bytes + static_cast<char>(bits);
}

// A string, or bytes.
inline std::string AvroText(std::string_view text) {
  return AvroLong(static_cast<int64_t>(text.size())) + std::string(text);
}

template <typename Float>
std::string AvroFloat(Float value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

}  // namespace millrace
