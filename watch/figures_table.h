// The table of figures: progressive, last window, held-out and tail, each beside its class prior.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "watch/terminal_text.h"

namespace millrace {

// Lines of at most `width` columns, the header first; columns that do not fit are left out, the
// least important first. Empty while there are no figures.
std::vector<std::string> FiguresTable(const JobProgress& job, const Style& style, size_t width);

}  // namespace millrace
