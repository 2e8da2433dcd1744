#include "features/class_scan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "features/csv_row_encoder.h"
#include "features/number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

constexpr uint64_t kRowsBetweenQuestions = 1000;

struct Found {
  double number;  // 0 unless all names are numbers
  std::string name;
  uint64_t rows;
  auto Order() const { return std::tie(number, name); }
};

void SortInto(const std::vector<std::string>& names, const std::vector<uint64_t>& counts,
              ClassScan& scan) {
  std::vector<Found> found;
  bool numbers = true;
  for (size_t i = 0; i < names.size(); ++i) {
    double value = 0;
    numbers = ParseNumber(names[i], &value) == NumberKind::kNumber && numbers;
    found.push_back({value, names[i], counts[i]});
  }
  if (!numbers) {
    for (Found& each : found) each.number = 0;
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.Order() < b.Order(); });
  for (Found& each : found) {
    scan.classes.push_back(std::move(each.name));
    scan.counts.push_back(each.rows);
  }
}

}  // namespace

Status ClassTally::Add(const FeatureEncoder& checker, std::span<const std::string_view> fields) {
  const std::string_view label = TrimSpaces(fields[0]);
  if (label.empty()) return absl::InvalidArgumentError("the label is empty");
  if (!IsValidUtf8(label)) return absl::InvalidArgumentError("the label is not valid UTF-8");
  MILLRACE_RETURN_IF_ERROR(checker.CheckFeatures(fields));
  const uint32_t id = labels_.FindOrAdd(label);
  if (id == counts_.size()) counts_.push_back(0);
  ++counts_[id];
  return absl::OkStatus();
}

Status ClassTally::CheckCount() const {
  if (labels_.size() <= kMaxClasses) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(column_, " has more than ", kMaxClasses,
                   " distinct values, too many for a class label; check --label"));
}

Status ClassTally::Finish(ClassScan& scan) const {
  if (labels_.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(column_, " has only the value ",
                                                   QuotedValue(labels_.names()[0]),
                                                   ": at least 2 classes are needed"));
  }
  SortInto(labels_.names(), counts_, scan);
  return absl::OkStatus();
}

StatusOr<ClassScan> ScanClasses(CsvFile& file, const FeatureSpec& spec,
                                const std::function<bool()>& stopped) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder checker, FeatureEncoder::CreateWithoutClasses(spec));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder rows,
                            CsvRowEncoder::Create(std::move(checker), file.columns(), file.name()));
  ClassTally tally(absl::StrCat(file.name(), ": column ", QuotedValue(spec.label())));
  ClassScan scan;
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
    const Status usable = fields.ok() ? tally.Add(rows.encoder(), *fields) : fields.status();
    if (!usable.ok()) {
      if (scan.malformed++ == 0)
        first_reason = absl::StrCat("line ", record.line, ": ", usable.message());
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(tally.CheckCount());
  }
  if (scan.malformed == scan.rows) {
    return absl::InvalidArgumentError(
        scan.rows == 0 ? absl::StrCat(file.name(), " has a header but no rows")
                       : absl::StrCat(file.name(), ": all ", scan.rows,
                                      " rows are malformed; the first: ", first_reason));
  }
  MILLRACE_RETURN_IF_ERROR(tally.Finish(scan));
  return scan;
}

}  // namespace millrace
