// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

std::string GroupedNumber(uint64_t number);  // 1,234,567

}  // namespace millrace
