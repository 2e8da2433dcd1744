#include "apps/finite_range.h"

#include <string>

#include "absl/strings/str_format.h"

namespace millrace {

CLI::Validator FiniteRange(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value >= least && value <= most) return "";
        return absl::StrFormat("%s: give a number from %g to %g", text, least, most);
      },
      "");
}

}  // namespace millrace
