// Suggests the known word nearest to a mistyped one. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace millrace {

// The only word of `known` that begins with `word`; else the nearest by edit distance, if at most a
// third of the letters must change (of equal ones the first); else empty.
std::optional<std::string> NearestWord(const std::string& word,
                                       const std::vector<std::string>& known);

}  // namespace millrace
