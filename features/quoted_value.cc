#include "features/quoted_value.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace millrace {
namespace {

constexpr size_t kShownBytes = 60;

}  // namespace

std::string QuotedValue(std::string_view value) {
  size_t shown = value.size();
  if (shown > kShownBytes) {
    shown = kShownBytes;
    // Not in the middle of a character.
    while (shown > kShownBytes - 4 && (static_cast<unsigned char>(value[shown]) & 0xC0) == 0x80) {
      --shown;
    }
  }
  const absl::string_view start(value.data(), shown);
  return absl::StrCat(
      "\"",
      IsValidUtf8(value.substr(0, shown)) ? absl::Utf8SafeCEscape(start) : absl::CEscape(start),
      shown < value.size() ? "...\"" : "\"");
}

}  // namespace millrace
