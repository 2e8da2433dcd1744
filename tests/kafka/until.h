// What the tests of this folder share, whichever broker they are on.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace millrace {

// Calls `step` until it is true; false when that takes longer than `limit`.
bool Until(const std::function<bool()>& step,
           std::chrono::milliseconds limit = std::chrono::seconds(30));

// "begin" to "end - 1".
std::vector<std::string> Numbers(int begin, int end);

}  // namespace millrace
