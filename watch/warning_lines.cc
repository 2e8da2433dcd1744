#include "watch/warning_lines.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "watch/terminal_text.h"

namespace millrace {
namespace {

constexpr size_t kLeastWidth = 20;  // below it lines are cut, not wrapped

void AppendWrapped(const std::string& text, size_t width, std::vector<std::string>& lines) {
  constexpr size_t kContinued = 2;  // the indent of what continues
  std::ranges::move(Wrapped(text, std::max(width, kLeastWidth), kContinued),
                    std::back_inserter(lines));
}

}  // namespace

std::vector<std::string> WarningLines(const std::vector<JobWarning>& warnings, size_t width) {
  std::vector<std::string> lines;
  std::string counts;
  const auto flush = [&] {
    if (!counts.empty()) AppendWrapped(counts, width, lines);
    counts.clear();
  };
  for (const JobWarning& warning : warnings) {
    if (warning.remedy.empty()) {
      absl::StrAppend(&counts, counts.empty() ? "" : ", ", warning.text);
      continue;
    }
    flush();
    AppendWrapped(ToText(warning), width, lines);
  }
  flush();
  return lines;
}

std::string WarningTexts(const std::vector<JobWarning>& warnings) {
  std::string texts;
  for (const JobWarning& warning : warnings) {
    absl::StrAppend(&texts, texts.empty() ? "" : ", ", warning.text);
  }
  return texts;
}

}  // namespace millrace
