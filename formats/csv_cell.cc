#include "formats/csv_cell.h"

#include <algorithm>

namespace millrace {

void AppendQuotedCell(std::string_view cell, std::string* out) {
  *out += '"';
  for (const char c : cell) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

void AppendCell(std::string_view cell, char delimiter, std::string* out) {
  const auto is_special = [delimiter](char c) {
    return c == delimiter || c == '"' || c == '\n' || c == '\r';
  };
  if (std::ranges::any_of(cell, is_special)) return AppendQuotedCell(cell, out);
  *out += cell;
}

}  // namespace millrace
