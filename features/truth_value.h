// Words of yes and no in the cells of tables.
#pragma once

#include <optional>
#include <string_view>

namespace millrace {

// 1 of "true" and 0 of "false", in any case of letters; none of any other trimmed cell.
std::optional<double> TruthOf(std::string_view text);

// The same also of t, yes, y, on and 1, and of f, no, n, off and 0.
std::optional<double> BooleanOf(std::string_view text);

}  // namespace millrace
