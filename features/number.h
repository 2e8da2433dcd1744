// Decimal numbers in the cells of tables.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// Without the spaces and tabs around it.
std::string_view TrimSpaces(std::string_view text);

enum class NumberKind : uint8_t {
  kNumber,    // finite
  kTooLarge,  // a number beyond the range of a double
  kInvalid,   // anything else, "inf", "NaN" and hexadecimal among it
};

// Reads a trimmed decimal number: 12, +1.5, -.5, 1., 6.02e23. Independent of the locale. *value is
// the nearest double, and is written only for kNumber.
NumberKind ParseNumber(std::string_view text, double* value);

// The same with a decimal comma: 12, +1,5, -,5, 6,02e23, and with points between groups of three
// digits, 1.234,5 and 1.234.567. Any other point makes it no number.
NumberKind ParseCommaNumber(std::string_view text, double* value);

}  // namespace millrace
