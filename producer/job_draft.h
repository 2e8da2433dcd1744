// A job file for a CSV that nobody has described yet: what each column seems to hold, and why.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/job.pb.h"

namespace millrace {

// Rows that are looked at.
inline constexpr uint64_t kRowsOfSample = 100'000;

// The text of a job file (messages/job.proto) for the CSV at `path`, by its first kRowsOfSample
// rows. `config` is what is known of the job: its csv, and features.label, .regression and
// .decimal_comma, which may all be unset. Without a label the file lists the columns that may be
// it, and is complete once one is named. Errors: those of CsvFile; no row that is well formed; a
// label that the file does not have; kCancelled soon after `stop` has become true.
StatusOr<std::string> DraftJob(const std::string& path, const JobConfig& config,
                               const std::atomic<bool>& stop);

}  // namespace millrace
