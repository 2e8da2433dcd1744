// The error message for a command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace {

// One line: what is wrong, which flag may have been meant or which program has it, and where help
// is. Does not begin with the program's name.
std::string UsageError(const CLI::App& app, const std::string& program,
                       const CLI::ParseError& error);

}  // namespace millrace
