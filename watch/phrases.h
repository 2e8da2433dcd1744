// Sentences that the screen, the line and the summary share. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "watch/terminal_text.h"

namespace millrace {

// What is shown of a job before its first figures.
std::string NoFiguresText(const JobState& state, double waited_seconds);

// Why a job on sliding buffers that has ended has trained on fewer rows than it has read; empty for
// others.
std::string ReplacedText(const JobProgress& job);

// Of rows whose labels come later, from another topic; empty: the job has none.
std::string LateLabelsText(const JobProgress& job);

// The last drift of the stream (DriftText); empty: there has been none.
std::optional<std::string> DriftNotice(const JobProgress& job);

// That the model is worse than one that knows nothing of the features (WorseThanPriorText), and
// that the stream has changed, as lines of at most `width` columns; none: neither.
std::vector<std::string> QualityWarning(const JobProgress& job, const Style& style, size_t width);

// The summary of a job of which no point was read.
std::string NothingReceivedText(const std::string& brokers);

}  // namespace millrace
