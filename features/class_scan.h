// The first scan of a file, which finds the classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "features/feature_encoder.h"
#include "features/label_index.h"
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

// Finds the classes in labels that come one by one. Not thread-safe.
class ClassTally {
 public:
  // `column` is the label's name in messages.
  explicit ClassTally(std::string column) : column_(std::move(column)) {}

  // Counts the label of a record, given by the fields that `checker` (without classes) requires.
  // InvalidArgument: the record will be rejected whatever the classes are, and gives none.
  Status Add(const FeatureEncoder& checker, std::span<const std::string_view> fields);
  // InvalidArgument as soon as there are more than kMaxClasses.
  Status CheckCount() const;
  // Sets classes and counts of `scan`. InvalidArgument: fewer than two classes. REQUIRES one.
  Status Finish(ClassScan& scan) const;

 private:
  std::string column_;
  LabelIndex labels_;
  std::vector<uint64_t> counts_;  // by id
};

// Reads `file` from where it is to its end. Records that Encode() would reject whatever the classes
// are, give no class. spec.classes is not looked at. Errors: those of ValidateColumns(), a column
// that the file has not, no well-formed record at all, fewer than 2 or more than kMaxClasses
// classes, and those of reading. Cancelled soon after `stopped` (may be empty) has become true.
StatusOr<ClassScan> ScanClasses(CsvFile& file, const FeatureSpec& spec,
                                const std::function<bool()>& stopped);

}  // namespace millrace
