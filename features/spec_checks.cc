#include "features/spec_checks.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "features/category_hasher.h"
#include "features/number.h"
#include "features/quantile_bins.h"
#include "features/quoted_value.h"
#include "features/time_parts.h"

namespace millrace {
namespace {

// What is wrong with a name of `field`, or with its use as a feature beside the label.
Status CheckName(std::string_view field, std::string_view column, std::string_view label) {
  if (TrimSpaces(column).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(FlaggedField(field), " names an empty column"));
  }
  if (column == label) {
    return absl::InvalidArgumentError(
        absl::StrCat(FlaggedField(field), " names the column ", QuotedValue(column),
                     ", which is the label: remove it, since a model must not be given the label"));
  }
  return absl::OkStatus();
}

Status Repeated(std::string_view field, std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(field.data(), field.size()),
                                                 " names ", QuotedValue(name), " twice"));
}

Status CheckColumns(std::string_view field,
                    const google::protobuf::RepeatedPtrField<std::string>& columns,
                    std::string_view label) {
  std::set<std::string> seen;
  for (const std::string& column : columns) {
    MILLRACE_RETURN_IF_ERROR(CheckName(field, column, label));
    if (!seen.insert(column).second) return Repeated(FlaggedField(field), column);
  }
  return absl::OkStatus();
}

Status CheckTerms(std::string_view field,
                  const google::protobuf::RepeatedPtrField<std::string>& terms,
                  std::string_view label) {
  std::set<std::vector<std::string>> seen;
  for (const std::string& term : terms) {
    const std::vector<std::string> columns = ColumnsOfTerm(term);
    std::set<std::string> distinct;
    for (const std::string& column : columns) {
      MILLRACE_RETURN_IF_ERROR(CheckName(field, column, label));
      if (!distinct.insert(column).second) {
        return Repeated("a cross of " + FlaggedField(field), column);
      }
    }
    if (!seen.insert(columns).second) return Repeated(FlaggedField(field), term);
  }
  return absl::OkStatus();
}

// What is wrong with spec.bins and, if there are any, with their edges.
Status CheckBins(const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> columns, BinnedColumns(spec));
  for (const BinnedColumn& each : columns) {
    MILLRACE_RETURN_IF_ERROR(CheckName("bins", each.column, spec.label()));
    for (const std::string& term : spec.categorical()) {
      if (ColumnsOfTerm(term) != std::vector{each.column}) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(FlaggedField("bins"), " and ", FlaggedField("categorical"), " name ",
                       QuotedValue(each.column),
                       ": its bin is a category already, so leave it out in one of the two"));
    }
  }
  return spec.bin_edges().empty() ? absl::OkStatus() : CheckBinEdges(spec, columns);
}

Status CheckBooleans(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckColumns("booleans", spec.booleans(), spec.label()));
  for (const std::string& column : spec.booleans()) {
    if (std::find(spec.numeric().begin(), spec.numeric().end(), column) != spec.numeric().end()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(FlaggedField("booleans"), " names ",
                                                   QuotedValue(column),
                                                   ", which numeric (--numeric) does not: add it"));
  }
  return absl::OkStatus();
}

Status CheckTimes(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckColumns("times", spec.times(), spec.label()));
  const std::vector<std::string> times(spec.times().begin(), spec.times().end());
  if (!FindTimePart(times, spec.label())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("label (--label) names ", QuotedValue(spec.label()),
                   ", a part of a time of --time-features: the label is a column of the file"));
}

}  // namespace

std::string FlaggedField(std::string_view field) {
  const std::string name(field);
  return name + " (--" + (name == "times" ? "time-features" : name) + ")";
}

bool HasCategories(const FeatureSpec& spec) {
  return !spec.categorical().empty() || !spec.bins().empty();
}

Status CheckNameIsUtf8(std::string_view field, std::string_view name) {
  if (IsValidUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(field.data(), field.size()),
                                                 ": ", QuotedValue(name),
                                                 " is not valid UTF-8: give the name in UTF-8; "
                                                 "of a file in latin-1, too, with --encoding "
                                                 "latin1"));
}

Status CheckNamesAreUtf8(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("label", spec.label()));
  const auto check = [](std::string_view field, const auto& names) -> Status {
    for (const std::string& name : names) MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8(field, name));
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(check("classes", spec.classes()));
  MILLRACE_RETURN_IF_ERROR(check("numeric", spec.numeric()));
  MILLRACE_RETURN_IF_ERROR(check("categorical", spec.categorical()));
  MILLRACE_RETURN_IF_ERROR(check("text", spec.text()));
  MILLRACE_RETURN_IF_ERROR(check("missing_tokens", spec.missing_tokens()));
  MILLRACE_RETURN_IF_ERROR(check("bins", spec.bins()));
  MILLRACE_RETURN_IF_ERROR(check("booleans", spec.booleans()));
  MILLRACE_RETURN_IF_ERROR(check("times", spec.times()));
  for (const FeatureSpec::BinEdges& edges : spec.bin_edges()) {
    MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("bin_edges", edges.column()));
  }
  return check("ids", spec.ids());
}

bool UsesTimeParts(const FeatureSpec& spec, std::string_view column) {
  const std::vector<std::string> times = {std::string(column)};
  const auto is_part = [&](const std::string& name) { return FindTimePart(times, name); };
  if (std::any_of(spec.numeric().begin(), spec.numeric().end(), is_part)) return true;
  for (const auto* terms : {&spec.categorical(), &spec.ids()}) {
    for (const std::string& term : *terms) {
      const std::vector<std::string> columns = ColumnsOfTerm(term);
      if (std::any_of(columns.begin(), columns.end(), is_part)) return true;
    }
  }
  const StatusOr<std::vector<BinnedColumn>> binned = BinnedColumns(spec);
  return binned.ok() && std::any_of(binned->begin(), binned->end(),
                                    [&](const BinnedColumn& each) { return is_part(each.column); });
}

Status CheckCrossesOfNumbers(const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> binned, BinnedColumns(spec));
  std::set<std::string> numbers(spec.numeric().begin(), spec.numeric().end());
  for (const BinnedColumn& each : binned) numbers.erase(each.column);
  for (const auto* terms : {&spec.categorical(), &spec.ids()}) {
    for (const std::string& term : *terms) {
      if (ColumnsOfTerm(term).size() == 1) numbers.erase(ColumnsOfTerm(term)[0]);
    }
  }
  for (const auto& [field, terms] :
       {std::pair("categorical", &spec.categorical()), std::pair("ids", &spec.ids())}) {
    for (const std::string& term : *terms) {
      for (const std::string& column : ColumnsOfTerm(term)) {
        if (!numbers.contains(column)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            FlaggedField(field), ": the cross ", QuotedValue(term), " names the numeric column ",
            QuotedValue(column), ", of which each number would be a category: add --bins ", column,
            " to cross its bins, or name ", column, " in --", field,
            " by itself, too, if it has few values"));
      }
    }
  }
  return absl::OkStatus();
}

Status ValidateColumns(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckNamesAreUtf8(spec));
  if (TrimSpaces(spec.label()).empty()) {
    return absl::InvalidArgumentError("no label column is named: give --label (field label)");
  }
  if (spec.numeric().empty() && !HasCategories(spec) && spec.text().empty() && spec.ids().empty()) {
    return absl::InvalidArgumentError(
        "no feature columns are named: name some by --numeric, --bins, --categorical, --text or "
        "--ids");
  }
  if (spec.regression() && !spec.classes().empty()) {
    return absl::InvalidArgumentError(
        "a regression has no classes: leave out --classes, or --regression");
  }
  MILLRACE_RETURN_IF_ERROR(CheckColumns("numeric", spec.numeric(), spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckBooleans(spec));
  MILLRACE_RETURN_IF_ERROR(CheckTimes(spec));
  MILLRACE_RETURN_IF_ERROR(CheckTerms("categorical", spec.categorical(), spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckTerms("ids", spec.ids(), spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckBins(spec));
  MILLRACE_RETURN_IF_ERROR(CheckColumns("text", spec.text(), spec.label()));

  uint64_t features = static_cast<uint64_t>(spec.numeric_size());
  if (spec.missing() == FeatureSpec::MEAN_AND_INDICATOR) features *= 2;
  if (HasCategories(spec)) {
    if (spec.categorical_buckets() == 0) {
      return absl::InvalidArgumentError(
          "categorical_buckets (--categorical-buckets) is 0; it must be at least 1");
    }
    features += spec.categorical_buckets();
  }
  if (!spec.text().empty()) {
    if (spec.text_buckets() == 0) {
      return absl::InvalidArgumentError(
          "text_buckets (--text-buckets) is 0; it must be at least 1");
    }
    features += uint64_t{spec.text_buckets()} * static_cast<uint64_t>(spec.text_size());
  }
  // The bias is one more.
  if (features >= std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        features,
        " features do not fit into 32 bits: lower --categorical-buckets or --text-buckets"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
