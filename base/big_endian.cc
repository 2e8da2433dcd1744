#include "base/big_endian.h"

namespace millrace {
namespace {

template <typename T>
std::string Encode(T value) {
  std::string bytes(sizeof(T), '\0');
  for (size_t i = sizeof(T); i-- > 0; value = static_cast<T>(value >> 8)) {
    bytes[i] = static_cast<char>(value & 0xff);
  }
  return bytes;
}

template <typename T>
std::optional<T> Decode(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value = 0;
  for (char byte : bytes) value = static_cast<T>((value << 8) | static_cast<unsigned char>(byte));
  return value;
}

}  // namespace

std::string EncodeBigEndian64(uint64_t value) { return Encode(value); }
std::string EncodeBigEndian32(uint32_t value) { return Encode(value); }
std::optional<uint64_t> DecodeBigEndian64(std::string_view bytes) {
  return Decode<uint64_t>(bytes);
}
std::optional<uint32_t> DecodeBigEndian32(std::string_view bytes) {
  return Decode<uint32_t>(bytes);
}

}  // namespace millrace
