// Text for terminals: numbers for people, colours, and cutting to a width. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/grouped_number.h"

namespace millrace {

struct Style {
  bool color = true;
  bool unicode = true;  // false: ASCII only
};

// Wider is not easier to read.
constexpr size_t kMaxColumns = 100;

enum class Ink { kBold, kDim, kGood, kWarn, kAccent };

// `text` in `ink`, as far as the style allows. Inks do not nest.
std::string Inked(const Style& style, Ink ink, const std::string& text);

// Columns on the screen: one for each UTF-8 character, none for ANSI escapes. (What we print has no
// wide characters.)
size_t ColumnsOf(const std::string& text);
// The first `columns` columns; ends with a reset of the colours if it was cut within one.
std::string Clipped(const std::string& text, size_t columns);
// Lines of at most `columns` columns, broken at spaces; a longer word is a line of its own, cut.
// Lines after the first begin with `indent` spaces.
std::vector<std::string> Wrapped(const std::string& text, size_t columns, size_t indent = 0);
std::string PaddedLeft(const std::string& text, size_t columns);
std::string PaddedRight(const std::string& text, size_t columns);

std::string RateText(double per_second);                 // 0.42, 21.9, 10,490
std::string RateText(std::optional<double> per_second);  // "-" when it is not known
std::string FigureText(double value);                    // 0.7021; "-" when it is no number

// A bar of `columns` columns: the first part full, the next light, the rest empty.
// Shares outside [0, 1] are clamped.
std::string Bar(const Style& style, double full, double light, size_t columns);

// One character per value, low to high; empty for no values.
std::string Sparkline(const Style& style, const std::vector<double>& values);

}  // namespace millrace
