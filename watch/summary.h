// The summary of a run: as JSON for programs, as a table for users. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "watch/terminal_text.h"

namespace millrace {

// One JSON object, indented, with an end of line. duration_seconds and the rates over it (null: not
// known) are those of JobProgress, as are rows_read and, at the end of a job on sliding buffers,
// rows_replaced; `holdout`, `progressive`, `window` and `tail` are there when there are such
// figures (docs/figures.md has their fields); `worse_than_prior` is null, or says so in words;
// `server_groups`, of a job of several groups of servers, has of each `group`, its `rounds`, the
// `exchanges` with its neighbor, the `unshared_updates` since (both null of the primary, 0) and the
// `deltas_taken` (metrics/group_progress.h); `consistency`, `schedule` and `learner` are null while
// no server has been heard from; then follows what tells the run from others (watch/run_json.h). Of
// a stream of several epochs rows_read, rows_rejected, rows_trained and progressive are of the
// first, rows_sent of all. `ended` is false for a job that still runs. Of a job of which no point
// was read all fields but `job` and `ended` are null, and `reason` says that nothing was received
// from Kafka at `brokers`.
std::string SummaryJson(const JobProgress& job, const std::string& name,
                        const std::string& brokers);

// The same fields as of this moment, and how the job is: `state` (running, waiting, stalled,
// stopped, ended), `reason` (the program that it waits for, or when it stopped),
// `rows_per_second_now`, `seconds_left` (null: not known) and `programs`, each with `name`, whether
// it has `ended`, and `seconds` since it was heard from. A worker has `last_update_s_ago` instead:
// it sends no points, and a server has last accepted an update of it then. `logical_workers` has of
// each, as shard 0 last said it, `worker`, `clock`, `buffer_rows` (rows of its sliding buffer; 0 in
// one pass) and whether it has `left`. On one line unless `indented`; with an end of line.
std::string StatusJson(const JobProgress& job, const std::string& name, const JobState& state,
                       bool indented);

struct SummaryOptions {
  std::string job;
  std::string brokers;
  Style style;
  size_t width = 80;
  bool cut = true;  // lines that are longer; false: where nobody's columns end (a file, a pipe)
};

std::vector<std::string> SummaryTable(const JobProgress& job, const SummaryOptions& options);

}  // namespace millrace
