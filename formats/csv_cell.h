// Cells of a CSV (RFC 4180), written.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// In quotes, whatever it holds.
void AppendQuotedCell(std::string_view cell, std::string* out);

// In quotes if it must be.
void AppendCell(std::string_view cell, char delimiter, std::string* out);

}  // namespace millrace
