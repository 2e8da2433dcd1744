#include "formats/csv_dialect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // the byte order mark of UTF-8

struct Named {
  char delimiter;
  std::string_view name;
};
constexpr Named kNamed[] = {
    {',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}, {' ', "space"}};

}  // namespace

bool DelimiterFinder::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (complete_) break;
    const uint64_t position = position_++;
    if (position < kMark.size() && c == kMark[position]) continue;
    if (state_ == State::kQuoted) {
      if (c == '"') state_ = State::kAfterQuote;
      continue;
    }
    if (c == '"' && state_ != State::kField) {
      state_ = State::kQuoted;  // it opens, or it is the second half of a doubled one
      line_is_empty_ = false;
      continue;
    }
    if (c == '\n') {
      complete_ = !line_is_empty_;
      state_ = State::kFieldStart;
      continue;
    }
    if (c != '\r') line_is_empty_ = false;
    const size_t candidate = kCandidates.find(c);
    state_ = candidate == std::string_view::npos ? State::kField : State::kFieldStart;
    if (candidate != std::string_view::npos) ++counts_[candidate];
  }
  return complete_;
}

char DelimiterFinder::delimiter() const {
  const auto most = std::max_element(counts_.begin(), counts_.end());
  const bool is_tie = std::count(counts_.begin(), counts_.end(), *most) > 1;
  return is_tie ? ',' : kCandidates[static_cast<size_t>(most - counts_.begin())];
}

StatusOr<char> ParseDelimiter(std::string_view text) {
  for (const Named& each : kNamed) {
    if (text == each.name) return each.delimiter;
  }
  if (text == "\\t") return '\t';
  constexpr std::string_view kNever("\"\r\n\0", 4);
  const bool is_one = text.size() == 1 && static_cast<uint8_t>(text[0]) < 0x80;
  if (is_one && kNever.find(text[0]) == std::string_view::npos) return text[0];
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CEscape({text.data(), text.size()}),
      "\" separates no fields: give one ASCII character other than a quote or a line end, or "
      "comma, semicolon, tab, pipe or space"));
}

std::string DelimiterName(char delimiter) {
  for (const Named& each : kNamed) {
    if (delimiter == each.delimiter) return std::string(each.name) + "s";
  }
  return absl::StrCat("\"", absl::CEscape({&delimiter, 1}), "\"");
}

}  // namespace millrace
