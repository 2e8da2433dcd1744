// The tables of a job's classes: precision, recall and F1, and who is taken for whom. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "watch/terminal_text.h"

namespace millrace {

// More classes are told in one line: the JSON has them.
inline constexpr size_t kMostClassesShown = 20;

// Of the held-out file's newest figures; if there are none, of the progressive ones. Lines of at
// most `width` columns, a title first. The confusion matrix is among them if it fits, else the most
// frequent confusions. Empty when no class is told of.
std::vector<std::string> ClassesTable(const JobProgress& job, const Style& style, size_t width);

}  // namespace millrace
