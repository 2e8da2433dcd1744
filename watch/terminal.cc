#include "watch/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";
constexpr char kClearLine[] = "\033[K";
constexpr char kClearBelow[] = "\033[J";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Write(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

}  // namespace

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

bool CanDrawLive() { return StdoutIsTerminal() && Variable("TERM") != "dumb"; }

TerminalSize SizeOfTerminal() {
  TerminalSize size;
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) {
    // Some terminals in containers say 0 until they know.
    if (window.ws_col > 0) size.columns = window.ws_col;
    if (window.ws_row > 0) size.rows = window.ws_row;
  }
  return size;
}

Style StyleOfTerminal() {
  Style style;
  style.color = CanDrawLive() && Variable("NO_COLOR").empty();
  std::string locale = Variable("LC_ALL");
  if (locale.empty()) locale = Variable("LC_CTYPE");
  if (locale.empty()) locale = Variable("LANG");
  const std::string lower = absl::AsciiStrToLower(locale);
  style.unicode =
      Variable("TERM") != "linux" &&
      (lower.empty() || absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8"));
  return style;
}

LiveArea::LiveArea() { Write(kHideCursor); }
LiveArea::~LiveArea() { Write(kShowCursor); }

// A terminal that became narrower has wrapped the lines.
std::string LiveArea::BackToTop() const {
  const size_t columns = std::max<size_t>(SizeOfTerminal().columns, 1);
  size_t up = 0;
  for (const size_t line : drawn_) up += std::max<size_t>((line + columns - 1) / columns, 1);
  return up > 0 ? absl::StrCat("\r\033[", up, "A") : "\r";
}

bool LiveArea::Draw(const std::vector<std::string>& above, const std::vector<std::string>& lines) {
  // In one piece, so that no half-drawn frame is seen.
  std::string text = BackToTop();
  for (const std::string& line : above) absl::StrAppend(&text, line, kClearLine, "\r\n");
  drawn_.clear();
  for (const std::string& line : lines) {
    absl::StrAppend(&text, line, kClearLine, "\r\n");
    drawn_.push_back(ColumnsOf(line));
  }
  return Write(text + kClearBelow);
}

void LiveArea::Clear() {
  Write(BackToTop() + kClearBelow);
  drawn_.clear();
}

}  // namespace millrace
