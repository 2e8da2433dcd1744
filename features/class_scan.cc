#include "features/class_scan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "features/csv_row_encoder.h"
#include "features/label_index.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "formats/utf8.h"

namespace millrace {
namespace {

constexpr uint64_t kRowsBetweenQuestions = 1000;

std::vector<std::string> Sorted(std::vector<std::string> classes) {
  std::vector<std::pair<double, std::string>> numbers;
  for (const std::string& name : classes) {
    double value;
    if (ParseNumber(name, &value) != NumberKind::kNumber) break;
    numbers.emplace_back(value, name);
  }
  if (numbers.size() < classes.size()) {
    std::sort(classes.begin(), classes.end());
    return classes;
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i) classes[i] = std::move(numbers[i].second);
  return classes;
}

}  // namespace

StatusOr<ClassScan> ScanClasses(CsvFile& file, const FeatureSpec& spec,
                                const std::function<bool()>& stopped) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder checker, FeatureEncoder::CreateWithoutClasses(spec));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder rows,
                            CsvRowEncoder::Create(std::move(checker), file.columns(), file.name()));
  const std::string column = absl::StrCat(file.name(), ": column ", QuotedValue(spec.label()));
  ClassScan scan;
  LabelIndex labels;
  CsvRecord record;
  std::string first_reason;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file.Next(&record));
    if (!found) break;
    ++scan.rows;
    if (scan.rows % kRowsBetweenQuestions == 0 && stopped && stopped()) {
      return absl::CancelledError("stopped while looking for the classes");
    }
    StatusOr<std::span<const std::string_view>> fields =
        record.ok() ? rows.Select(record.fields) : absl::InvalidArgumentError(record.error);
    std::string_view label;
    if (fields.ok()) label = TrimSpaces((*fields)[0]);
    const Status usable = !fields.ok()    ? fields.status()
                          : label.empty() ? absl::InvalidArgumentError("the label is empty")
                          : !IsValidUtf8(label)
                              ? absl::InvalidArgumentError("the label is not valid UTF-8")
                              : rows.encoder().CheckFeatures(*fields);
    if (!usable.ok()) {
      if (scan.malformed++ == 0)
        first_reason = absl::StrCat("line ", record.line, ": ", usable.message());
      continue;
    }
    labels.FindOrAdd(label);
    if (labels.size() > kMaxClasses) {
      return absl::InvalidArgumentError(
          absl::StrCat(column, " has more than ", kMaxClasses,
                       " distinct values, too many for a class label; check --label"));
    }
  }
  if (scan.malformed == scan.rows) {
    return absl::InvalidArgumentError(
        scan.rows == 0 ? absl::StrCat(file.name(), " has a header but no rows")
                       : absl::StrCat(file.name(), ": all ", scan.rows,
                                      " rows are malformed; the first: ", first_reason));
  }
  if (labels.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(column, " has only the value ",
                                                   QuotedValue(labels.names()[0]),
                                                   ": at least 2 classes are needed"));
  }
  scan.classes = Sorted(labels.names());
  return scan;
}

}  // namespace millrace
