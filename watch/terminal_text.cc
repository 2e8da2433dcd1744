#include "watch/terminal_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

constexpr char kReset[] = "\033[0m";

std::string CodeOf(Ink ink) {
  switch (ink) {
    case Ink::kBold:
      return "\033[1m";
    case Ink::kDim:
      return "\033[2m";
    case Ink::kGood:
      return "\033[32m";
    case Ink::kWarn:
      return "\033[33m";
    case Ink::kAccent:
      return "\033[36m";
  }
  return "";
}

// The length of the escape sequence at `at`, 0 if there is none.
size_t EscapeAt(const std::string& text, size_t at) {
  if (text[at] != '\033' || at + 1 >= text.size() || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return std::min(end + 1, text.size()) - at;
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string Repeated(const char* text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace

std::string Inked(const Style& style, Ink ink, const std::string& text) {
  if (!style.color || text.empty()) return text;
  return CodeOf(ink) + text + kReset;
}

size_t ColumnsOf(const std::string& text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t escape = EscapeAt(text, at);
    if (escape == 0 && !Continues(text[at])) ++columns;
    at += std::max<size_t>(escape, 1);
  }
  return columns;
}

std::string Clipped(const std::string& text, size_t columns) {
  size_t used = 0;
  bool inked = false;
  for (size_t at = 0; at < text.size();) {
    if (const size_t escape = EscapeAt(text, at); escape > 0) {
      inked = text.compare(at, escape, kReset) != 0;
      at += escape;
      continue;
    }
    if (!Continues(text[at]) && ++used > columns) {
      return text.substr(0, at) + (inked ? kReset : "");
    }
    ++at;
  }
  return text;
}

std::vector<std::string> Wrapped(const std::string& text, size_t columns, size_t indent) {
  std::vector<std::string> lines;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t before = lines.empty() ? 0 : std::min(indent, columns);
    const std::string clipped = Clipped(std::string(word), columns - before);
    if (!lines.empty() && ColumnsOf(lines.back()) + 1 + ColumnsOf(clipped) <= columns) {
      absl::StrAppend(&lines.back(), " ", clipped);
    } else {
      lines.push_back(std::string(before, ' ') + clipped);
    }
  }
  return lines;
}

std::string PaddedLeft(const std::string& text, size_t columns) {
  const size_t used = ColumnsOf(text);
  return used >= columns ? text : std::string(columns - used, ' ') + text;
}

std::string PaddedRight(const std::string& text, size_t columns) {
  const size_t used = ColumnsOf(text);
  return used >= columns ? text : text + std::string(columns - used, ' ');
}

std::string RateText(double per_second) {
  if (!(per_second >= 0) || per_second > 1e15) return "-";
  if (per_second >= 99.95) return GroupedNumber(static_cast<uint64_t>(std::llround(per_second)));
  if (per_second >= 0.995 || per_second == 0) return absl::StrFormat("%.1f", per_second);
  return absl::StrFormat("%.2f", per_second);
}

std::string RateText(std::optional<double> per_second) {
  return per_second ? RateText(*per_second) : "-";
}

std::string FigureText(double value) {
  if (!std::isfinite(value)) return "-";
  return absl::StrFormat("%.4f", value);
}

std::string Bar(const Style& style, double full, double light, size_t columns) {
  const auto share = [&](double part) {
    return std::min(columns,
                    static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns)));
  };
  const size_t done = share(full);
  const size_t begun = std::max(share(light), done);
  const char* const full_block = style.unicode ? "█" : "#";
  const char* const light_block = style.unicode ? "▒" : "=";
  const char* const empty_block = style.unicode ? "░" : ".";
  return Inked(style, Ink::kAccent, Repeated(full_block, done)) +
         Inked(style, Ink::kAccent, Repeated(light_block, begun - done)) +
         Inked(style, Ink::kDim, Repeated(empty_block, columns - begun));
}

std::string Sparkline(const Style& style, const std::vector<double>& values) {
  static constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::string_view kAscii[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
  double low = INFINITY;
  double high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line += ' ';
      continue;
    }
    const double height = high > low ? (value - low) / (high - low) : 0.5;
    const auto level = std::min<size_t>(7, static_cast<size_t>(height * 8));
    line += style.unicode ? kBlocks[level] : kAscii[level];
  }
  return line;
}

}  // namespace millrace
