// Quotes a value of the input for an error message.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// In quotes, on one line, valid UTF-8 (control characters and invalid bytes are escaped as in C),
// and cut after about 60 bytes.
std::string QuotedValue(std::string_view value);

}  // namespace millrace
