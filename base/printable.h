// Text from elsewhere, made fit for a log and a terminal.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// Control characters and whatever is not ASCII become \xNN: nothing from another process, a file or
// a topic can move the cursor, start a line or change colours. Longer texts are cut, and end with
// "..".
std::string Printable(std::string_view text, size_t most = 300);

// Whether the text has control characters: those of ASCII, and DEL.
bool HasControls(std::string_view text);

}  // namespace millrace
