#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace millrace {

size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 64 <= text.size(); i += 64) {
    uint8_t any = 0;
    for (size_t j = 0; j < 64; ++j) any |= static_cast<uint8_t>(text[i + j]);
    if (any >= 0x80) break;
  }
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t eight;
    std::memcpy(&eight, text.data() + i, 8);
    if ((eight & 0x8080808080808080) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

bool IsValidUtf8(std::string_view text) {
  while (true) {
    text.remove_prefix(AsciiPrefix(text));
    // Text in other scripts: stay here until two ASCII characters in a row.
    for (size_t ascii = 0; ascii < 2;) {
      if (text.empty()) return true;
      const Utf8Char c = DecodeUtf8(text);
      if (c.size == 0) return false;
      ascii = c.size == 1 ? ascii + 1 : 0;
      text.remove_prefix(c.size);
    }
  }
}

}  // namespace millrace
