// The first scan of a file, which finds the classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/csv_file.h"
#include "messages/features.pb.h"

namespace millrace {

// A label column with more distinct values than this is considered a mistake (a number or an id).
inline constexpr size_t kMaxClasses = 10'000;

struct ClassScan {
  // Distinct labels: in the order of their numbers if all are numbers, else of their bytes. Of
  // labels that are equal as numbers ("1", "1.0") the one that came first.
  std::vector<std::string> classes;
  std::vector<uint64_t> counts;  // well-formed rows of each class
  uint64_t rows = 0;             // records that were looked at
  uint64_t malformed = 0;        // records that will be rejected whatever the classes are
};

// Reads `file` from where it is to its end. Records that Encode() would reject whatever the classes
// are, give no class. spec.classes is not looked at. Errors: those of ValidateColumns(), a column
// that the file has not, no well-formed record at all, fewer than 2 or more than kMaxClasses
// classes, and those of reading. Cancelled soon after `stopped` (may be empty) has become true.
StatusOr<ClassScan> ScanClasses(CsvFile& file, const FeatureSpec& spec,
                                const std::function<bool()>& stopped);

}  // namespace millrace
