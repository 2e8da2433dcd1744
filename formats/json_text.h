// Whether a text is JSON, whatever its values mean.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace millrace {

// Where the text is no JSON by the grammar of RFC 8259: the first byte that cannot stand there, or
// the text's size if it ends too early; nothing: it is one value, with white space around. Numbers
// may have any size, strings any escapes (half of a surrogate pair, too), objects a member twice,
// and values any depth. Whether strings are UTF-8 is not looked at. Pure.
std::optional<size_t> FindJsonError(std::string_view text);

}  // namespace millrace
