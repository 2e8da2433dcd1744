// The summary of a run: as JSON for programs, as a table for users. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "watch/terminal_text.h"

namespace millrace {

// One JSON object, indented, with an end of line. duration_seconds and the rates over it are those
// of JobProgress; `holdout`, `progressive` and `tail` are there when there are such figures, `auc`
// in them when there are two classes; `consistency`, `schedule` and `learner` are null while no
// server has been heard from. Of a stream of several epochs rows_read, rows_rejected, rows_trained
// and progressive are of the first, rows_sent of all. `ended` is false for a job that still runs.
std::string SummaryJson(const JobProgress& job, const std::string& name);

// The same fields as of this moment, and how the job is: `state` (running, waiting, stalled,
// ended), `reason` (the program that it waits for), `rows_per_second_now`, `seconds_left` (null:
// not known) and `programs`, each with `name`, `seconds` since it was heard from and whether it has
// `ended`. On one line unless `indented`; with an end of line.
std::string StatusJson(const JobProgress& job, const std::string& name, const JobState& state,
                       bool indented);

// Lines of at most `width` columns.
std::vector<std::string> SummaryTable(const JobProgress& job, const std::string& name,
                                      const Style& style, size_t width);

}  // namespace millrace
