#include "features/truth_value.h"

#include "absl/strings/match.h"

namespace millrace {

std::optional<double> TruthOf(std::string_view text) {
  const absl::string_view word(text.data(), text.size());
  if (absl::EqualsIgnoreCase(word, "true")) return 1;
  if (absl::EqualsIgnoreCase(word, "false")) return 0;
  return std::nullopt;
}

std::optional<double> BooleanOf(std::string_view text) {
  const absl::string_view word(text.data(), text.size());
  for (const char* yes : {"t", "yes", "y", "on", "1"}) {
    if (absl::EqualsIgnoreCase(word, yes)) return 1;
  }
  for (const char* no : {"f", "no", "n", "off", "0"}) {
    if (absl::EqualsIgnoreCase(word, no)) return 0;
  }
  return TruthOf(text);
}

}  // namespace millrace
