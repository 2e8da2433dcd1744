#include "features/missing_tokens.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "features/number.h"

namespace millrace {

std::span<const std::string_view> CommonMissingTokens() {
  static constexpr std::string_view kTokens[] = {"NA",   "N/A",  "#N/A", "NaN",
                                                 "null", "none", "?",    "-"};
  return kTokens;
}

MissingTokens::MissingTokens(std::span<const std::string> tokens, bool decimal_comma) {
  if (tokens.empty()) {
    texts_.assign(CommonMissingTokens().begin(), CommonMissingTokens().end());
    return;
  }
  for (const std::string& token : tokens) {
    const std::string_view text = TrimSpaces(token);
    double number;
    if (ParseNumber(text, &number) == NumberKind::kNumber ||
        (decimal_comma && ParseCommaNumber(text, &number) == NumberKind::kNumber)) {
      numbers_.push_back(number);
    } else {
      texts_.emplace_back(text);
    }
  }
}

bool MissingTokens::IsText(std::string_view cell) const {
  if (cell.empty()) return true;
  return std::any_of(texts_.begin(), texts_.end(), [cell](const std::string& token) {
    return absl::EqualsIgnoreCase(absl::string_view(cell.data(), cell.size()), token);
  });
}

bool MissingTokens::IsNumber(double value) const {
  return std::find(numbers_.begin(), numbers_.end(), value) != numbers_.end();
}

}  // namespace millrace
