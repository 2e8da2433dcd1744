// A job's warnings (metrics/job_warnings.h) as the displays show them, all in the same order. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_warnings.h"

namespace millrace {

// Each warning that has a remedy begins a line, and is wrapped at `width` columns; those without
// one stand together. None: no lines. The text is ASCII.
std::vector<std::string> WarningLines(const std::vector<JobWarning>& warnings, size_t width);

// "text, text", without remedies; empty: none.
std::string WarningTexts(const std::vector<JobWarning>& warnings);

}  // namespace millrace
