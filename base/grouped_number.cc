#include "base/grouped_number.h"

namespace millrace {

std::string GroupedNumber(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

}  // namespace millrace
