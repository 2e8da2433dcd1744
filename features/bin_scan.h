// The scan of a file's first rows, which finds the edges of bins.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"

namespace millrace {

// Rows whose quantiles are the edges.
inline constexpr uint64_t kRowsForBins = 10'000;

struct BinScan {
  google::protobuf::RepeatedPtrField<FeatureSpec::BinEdges> edges;  // of each column of spec.bins
  uint64_t rows = 0;                                                // that they come from
};

// Reads the first kRowsForBins rows of `file` from where it is; those that Encode() would reject
// whatever the classes are do not count, and cells without a value have no bin to find. What
// spec.classes and spec.bin_edges are makes no difference. Errors: those of ValidateColumns(), a
// column that the file has not, no well-formed record at all, and those of reading. Cancelled soon
// after `stopped` (may be empty) has become true.
StatusOr<BinScan> ScanBins(CsvFile& file, const FeatureSpec& spec,
                           const std::function<bool()>& stopped);

}  // namespace millrace
