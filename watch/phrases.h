// Sentences that the screen, the line and the summary share. Pure.
#pragma once

#include <string>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"

namespace millrace {

// What is shown of a job before its first figures.
std::string NoFiguresText(const JobState& state, double waited_seconds);

// Why a job on sliding buffers that has ended has trained on fewer rows than it has read; empty for
// others.
std::string ReplacedText(const JobProgress& job);

// The summary of a job of which no point was read.
std::string NothingReceivedText(const std::string& brokers);

}  // namespace millrace
