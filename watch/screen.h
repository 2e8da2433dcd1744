// The live display as lines of text. Pure: the same progress and options give the same lines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "watch/terminal_text.h"

namespace millrace {

struct ScreenOptions {
  std::string job;
  size_t columns = 80;
  size_t rows = 24;
  bool cut = true;  // lines that are longer; false: where nobody's columns end (a file, a pipe)
  Style style;
  JobState state;
  double waited_seconds = 0;  // for the job's first point
};

// At most options.rows lines of at most options.columns columns, if they are cut. What does not fit
// is left out, the least important first.
std::vector<std::string> RenderScreen(const JobProgress& job, const ScreenOptions& options);

}  // namespace millrace
