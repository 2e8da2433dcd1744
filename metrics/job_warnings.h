// What a job's figures say is wrong with it, or may be: made here for every display. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "messages/records.pb.h"
#include "metrics/job_progress.h"

namespace millrace {

struct JobWarning {
  std::string kind;    // for programs: "rows_rejected"
  std::string text;    // "120 of 10,000 rows rejected (1.2 %)"
  std::string remedy;  // what can be done; empty: it is only told
};

// A job of fewer optimizer steps than this has hardly been trained.
inline constexpr uint64_t kFewSteps = 50;

// In the order in which they are shown: first what makes the model useless, then counts of events.
std::vector<JobWarning> WarningsOf(const JobProgress& job);

// Those that CsvProducer can give: on the rows it rejects, and, once all rows are sent, on a stream
// that is too short for the training settings (empty: no server has published them) and so many
// workers.
std::vector<JobWarning> WarningsOf(const MetricPoint::ProducerProgress& producer,
                                   const std::optional<Training>& training, uint32_t workers);

// "text: remedy", or the text alone.
std::string ToText(const JobWarning& warning);

}  // namespace millrace
