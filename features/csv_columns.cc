#include "features/csv_columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "features/quoted_value.h"
#include "features/time_parts.h"
#include "formats/csv_dialect.h"
#include "formats/csv_file.h"

namespace millrace {
namespace {

// A guess at why a column was not found. (A name may hold a comma, but not each of them does.)
std::string SeparatorAdvice(const std::vector<std::string>& columns) {
  for (const char separator : {'\t', ';', '|', ','}) {
    size_t count = 0;
    for (const std::string& column : columns) {
      count += static_cast<size_t>(std::count(column.begin(), column.end(), separator));
    }
    if (count < columns.size()) continue;
    return absl::StrCat("; are they separated by ", DelimiterName(separator),
                        "? Then name the separator by --delimiter");
  }
  return "";
}

// A further column of a time must be no other one of the file.
Status CheckTimeParts(const std::vector<std::string>& times,
                      const std::vector<std::string>& columns, std::string_view file) {
  for (const std::string& column : columns) {
    if (!FindTimePart(times, column)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        absl::string_view(file.data(), file.size()), " has a column ", QuotedValue(column),
        ", as a part of a time of --time-features is called: rename it"));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<CsvColumns> CsvColumns::Find(const FeatureEncoder& encoder,
                                      const std::vector<std::string>& columns,
                                      std::string_view file, Label label) {
  MILLRACE_RETURN_IF_ERROR(CheckTimeParts(encoder.times(), columns, file));
  const std::vector<std::string>& required = encoder.required_columns();
  const bool has_label =
      label == Label::kNeeded || std::ranges::find(columns, required.front()) != columns.end();
  std::vector<size_t> positions;
  for (size_t i = has_label ? 0 : 1; i < required.size(); ++i) {
    const StatusOr<size_t> position = FindColumn(columns, required[i], file);
    if (!position.ok()) {
      const std::string& cross = encoder.cross_of(i);
      return Status(position.status().code(),
                    absl::StrCat(cross, cross.empty() ? "" : ": ", position.status().message(),
                                 SeparatorAdvice(columns)));
    }
    positions.push_back(*position);
  }
  return CsvColumns(std::move(positions), columns.size(), has_label);
}

StatusOr<std::span<const std::string_view>> CsvColumns::Select(
    std::span<const std::string_view> fields) {
  if (fields.size() != column_count_) {
    return absl::InvalidArgumentError(absl::StrCat(fields.size(),
                                                   fields.size() == 1 ? " field" : " fields",
                                                   ", but the header has ", column_count_));
  }
  for (size_t i = 0; i < positions_.size(); ++i) selected_[i] = fields[positions_[i]];
  return selected_;
}

}  // namespace millrace
