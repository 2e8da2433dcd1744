// What follows from a label whose level moves, and the look at the first rows of a file for it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"
#include "messages/job.pb.h"
#include "producer/progress_display.h"

namespace millrace {

// What MovingLevel() says of the first rows of the file at `path`: 20,000, or all if there
// are fewer, of which those count that can be used. REQUIRES that `spec` has its classes and edges.
// Errors: those of opening and reading, and of CsvRowEncoder::Create().
StatusOr<std::optional<double>> SearchForMovingLevel(const std::string& path,
                                                     const CsvFile::Options& options,
                                                     const FeatureSpec& spec);

// What follows for a new job of several workers.
struct LevelVerdict {
  bool is_for_one_worker = false;  // all rows go to worker 0
  std::string note{};              // for the user; empty: nothing
  std::string warning{};           // the same
};
// Of a label of which MovingLevel() says this. One worker gets all rows, unless somebody has chosen
// otherwise: turns of some length (--rows-per-turn), leases (--sharding dynamic), groups of workers
// or an all-reduce. That is a warning, unless turns are short.
LevelVerdict VerdictOnLevel(double share, const JobConfig& config);

// Whether one worker gets all rows of a new job, by what `search` finds; says why. The search is
// left out of a job of one worker.
using SearchLevel = std::function<StatusOr<std::optional<double>>()>;
StatusOr<bool> IsForOneWorker(const JobConfig& config, const SearchLevel& search,
                              ProgressDisplay& display);

}  // namespace millrace
