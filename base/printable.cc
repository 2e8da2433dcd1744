#include "base/printable.h"

#include <algorithm>

namespace millrace {

std::string Printable(std::string_view text, size_t most) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string printable;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      printable += c;
    } else {
      printable += "\\x";
      printable += kDigits[byte >> 4];
      printable += kDigits[byte & 15];
    }
  }
  if (text.size() > most) printable += "..";
  return printable;
}

bool HasControls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

}  // namespace millrace
