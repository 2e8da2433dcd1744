// The terminal on stdout.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "watch/terminal_text.h"

namespace millrace {

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
};

bool StdoutIsTerminal();
// stdout is a terminal that can be drawn on (TERM is not "dumb").
bool CanDrawLive();
TerminalSize SizeOfTerminal();
// Colours unless NO_COLOR is set or stdout is no terminal; Unicode unless the locale is of another
// kind. (Where no locale is set at all, as in containers, terminals still show UTF-8.)
Style StyleOfTerminal();

// Lines that are redrawn in place. The cursor is hidden while it lives.
class LiveArea {
 public:
  LiveArea();
  ~LiveArea();
  LiveArea(const LiveArea&) = delete;
  LiveArea& operator=(const LiveArea&) = delete;

  // `above` scrolls by above the area, once. Returns false when stdout is gone.
  bool Draw(const std::vector<std::string>& above, const std::vector<std::string>& lines);
  // Clears the area; the next output replaces it.
  void Clear();

 private:
  std::string BackToTop() const;

  std::vector<size_t> drawn_;  // columns of each line on the screen
};

}  // namespace millrace
