// Where the lines go that the folders below the programs write for whoever runs the process: as a
// rule to stderr, or to the log, but a program that uses Millrace as a library has its own place.
#pragma once

#include <functional>
#include <string_view>

namespace millrace {

// Gets lines without their ends, of any thread, one at a time. It must not call what writes lines.
using LineSink = std::function<void(std::string_view line)>;

// From now on all lines of the process go there.
void SetLineSink(LineSink sink);
// The same, unless they go to a sink already.
void SetFirstLineSink(LineSink sink);

// Hands the line to the sink. False: there is none, and the caller writes it.
bool GiveToLineSink(std::string_view line);

}  // namespace millrace
