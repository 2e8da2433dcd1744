// What somebody may have meant who mistyped a word. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace millrace {

// The word of `known` that `word` is the beginning of, if there is one only, or else the nearest by
// edit distance, if it is near: at most a third of the letters must change. Ties: the first.
std::optional<std::string> NearestWord(const std::string& word,
                                       const std::vector<std::string>& known);

}  // namespace millrace
