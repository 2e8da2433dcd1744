#include "formats/latin1.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"

namespace millrace {
namespace {

// Of the bytes 0x80 to 0x9F; the others are the code points of their numbers.
constexpr char32_t kWindows[32] = {0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                   0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D, 0x017D, 0x008F,
                                   0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                   0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};

}  // namespace

size_t Latin1ToUtf8(std::string_view text, std::span<char> out) {
  MILLRACE_CHECK(out.size() >= text.size() * kMostUtf8OfLatin1);
  char* end = out.data();
  while (!text.empty()) {
    const size_t ascii = AsciiPrefix(text);
    std::memcpy(end, text.data(), ascii);
    end += ascii;
    text.remove_prefix(ascii);
    for (; !text.empty() && static_cast<uint8_t>(text[0]) >= 0x80; text.remove_prefix(1)) {
      const auto byte = static_cast<uint8_t>(text[0]);
      end += EncodeUtf8(byte < 0xA0 ? kWindows[byte - 0x80] : byte, end);
    }
  }
  return static_cast<size_t>(end - out.data());
}

}  // namespace millrace
