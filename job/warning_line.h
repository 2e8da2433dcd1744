// Warnings of this folder, which programs log, and others' programs get as lines.
#pragma once

#include <string>

namespace millrace {

void WarnInALine(const std::string& text);

}  // namespace millrace
