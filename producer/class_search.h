// The first scan of the input, with progress shown.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"
#include "producer/progress_display.h"

namespace millrace {

// ScanClasses() over the file at `path`; shows its progress while it takes long, and what was
// found. Errors: those of ScanClasses(); Cancelled when stopped meanwhile.
StatusOr<std::vector<std::string>> SearchClasses(const std::string& path,
                                                 const CsvFile::Options& options,
                                                 const FeatureSpec& spec,
                                                 const std::atomic<bool>& stop,
                                                 ProgressDisplay& display);

}  // namespace millrace
