// The scan of the input's first rows for the edges of bins, and what to say of it.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "features/bin_scan.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"
#include "producer/progress_display.h"

namespace millrace {

// "bins by the first 10,000 rows: 16 of "temp", 3 of "precip" and 2 more columns"
std::string FoundBins(const BinScan& scan);
// A warning of columns that have one bin only, since their first values are all the same, or
// missing; empty: none.
std::string ColumnsOfOneBin(const BinScan& scan);

// Sets spec.bin_edges if it has bins without: those of `published`, the features of the job (null:
// none yet), which must be of the same columns; else those that ScanBins() finds in the file at
// `path`, of which it tells. FailedPrecondition if the file is none that can be read twice
// (`can_read_again`); errors of ScanBins(); Cancelled when stopped meanwhile.
Status SetBinEdges(const std::string& path, const CsvFile::Options& options, bool can_read_again,
                   const FeatureSpec* published, const std::atomic<bool>& stop,
                   ProgressDisplay& display, FeatureSpec& spec);

}  // namespace millrace
