#include "watch/warning_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace {
namespace {

constexpr size_t kLeastWidth = 20;  // below it lines are cut, not wrapped

void AppendWrapped(const std::string& text, size_t width, std::vector<std::string>& lines) {
  const size_t columns = std::max(width, kLeastWidth);
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > columns) {
      lines.push_back(line);
      line = " ";  // what continues is indented
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  lines.push_back(line);
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
