// UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates, nothing
// above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

// Bytes of the sequence that starts `text`, and its code point; 0 bytes if there is no valid one.
struct Utf8Char {
  size_t size = 0;
  char32_t code_point = 0;
};

inline Utf8Char DecodeUtf8(std::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return {};
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) {
    if (!continues(1)) return {};
    return {2, (lead & 0x1F) << 6 | (byte(1) & 0x3F)};
  }
  if (lead < 0xF0) {
    if (!continues(1) || !continues(2)) return {};
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (c < 0x800 || (c >= 0xD800 && c < 0xE000)) return {};
    return {3, c};
  }
  if (lead < 0xF5) {
    if (!continues(1) || !continues(2) || !continues(3)) return {};
    const char32_t c =
        (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c < 0x10000 || c > 0x10FFFF) return {};
    return {4, c};
  }
  return {};
}

// Writes the UTF-8 form of a valid code point to out[0..4) and returns its size.
inline size_t EncodeUtf8(char32_t c, char* out) {
  const auto put = [&](size_t i, char32_t bits) { out[i] = static_cast<char>(bits); };
  if (c < 0x80) {
    put(0, c);
    return 1;
  }
  if (c < 0x800) {
    put(0, 0xC0 | c >> 6);
    put(1, 0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    put(0, 0xE0 | c >> 12);
    put(1, 0x80 | (c >> 6 & 0x3F));
    put(2, 0x80 | (c & 0x3F));
    return 3;
  }
  put(0, 0xF0 | c >> 18);
  put(1, 0x80 | (c >> 12 & 0x3F));
  put(2, 0x80 | (c >> 6 & 0x3F));
  put(3, 0x80 | (c & 0x3F));
  return 4;
}

// The number of ASCII bytes at the start of `text`. At the speed of memory.
size_t AsciiPrefix(std::string_view text);

bool IsValidUtf8(std::string_view text);

}  // namespace millrace
