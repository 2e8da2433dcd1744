// Which numbers a flag takes.
#pragma once

#include <CLI/CLI.hpp>

namespace millrace {

// A finite number in [least, most]. (CLI::Range lets NaN through, which is neither below nor
// above.)
CLI::Validator FiniteRange(double least, double most);

}  // namespace millrace
