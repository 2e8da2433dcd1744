// The first scan of the input, with progress shown.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/status.h"
#include "features/class_scan.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"
#include "producer/progress_display.h"

namespace millrace {

// "found 3 classes in 1,000 rows: "no" 700, "yes" 299, "yse" 1": in the order of their ids, which
// is that of the columns of a weights file; of more than ten the most frequent ones.
std::string FoundClasses(const ClassScan& scan);
// A warning of classes that may be typing errors, since very few rows have them; empty: none.
std::string RareClasses(const ClassScan& scan);

// ScanClasses() over the file at `path`; shows its progress while it takes long, and what was
// found. Errors: those of ScanClasses(); Cancelled when stopped meanwhile.
StatusOr<std::vector<std::string>> SearchClasses(const std::string& path,
                                                 const CsvFile::Options& options,
                                                 const FeatureSpec& spec,
                                                 const std::atomic<bool>& stop,
                                                 ProgressDisplay& display);

}  // namespace millrace
