#include "features/feature_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "features/number.h"
#include "features/quantile_bins.h"
#include "features/quoted_value.h"
#include "formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kShownClasses = 20;

std::vector<std::string> ToVector(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

Status CellError(std::string_view column, std::string_view value, std::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("column ", QuotedValue(column), ": ",
                                                 QuotedValue(value), " ",
                                                 absl::string_view(reason.data(), reason.size())));
}

Status UnknownLabel(std::string_view column, std::string_view label,
                    const std::vector<std::string>& classes) {
  if (label.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("column ", QuotedValue(column), ": the label is empty"));
  }
  if (!IsValidUtf8(label)) return CellError(column, label, "is not valid UTF-8");
  std::vector<std::string> shown(
      classes.begin(),
      classes.begin() + static_cast<ptrdiff_t>(std::min(classes.size(), kShownClasses)));
  if (shown.size() < classes.size()) shown.push_back("...");
  return CellError(column, label,
                   absl::StrCat("is none of the classes (", absl::StrJoin(shown, ", "), ")"));
}

// As messages name a field: with its flag, which is called like it.
std::string Flagged(std::string_view field) {
  const std::string name(field);
  return name + " (--" + name + ")";
}

// What is wrong with a name of `field`, or with its use as a feature beside the label.
Status CheckName(std::string_view field, std::string_view column, std::string_view label) {
  if (TrimSpaces(column).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(Flagged(field), " names an empty column"));
  }
  if (column == label) {
    return absl::InvalidArgumentError(
        absl::StrCat(Flagged(field), " names the column ", QuotedValue(column),
                     ", which is the label: remove it, since a model must not be given the label"));
  }
  return absl::OkStatus();
}

Status Repeated(std::string_view field, std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(field.data(), field.size()),
                                                 " names ", QuotedValue(name), " twice"));
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
        return Repeated("a cross of " + Flagged(field), column);
      }
    }
    if (!seen.insert(columns).second) return Repeated(Flagged(field), term);
  }
  return absl::OkStatus();
}

// What is wrong with spec.bins and, if there are any, with their edges.
Status CheckBins(const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> columns, BinnedColumns(spec));
  for (const BinnedColumn& each : columns) {
    MILLRACE_RETURN_IF_ERROR(CheckName("bins", each.column, spec.label()));
    for (const std::string& term : spec.categorical()) {
      if (TrimSpaces(term) != each.column) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Flagged("bins"), " and ", Flagged("categorical"), " name ", QuotedValue(each.column),
          ": its bin is a category already, so leave it out in one of the two"));
    }
  }
  return spec.bin_edges().empty() ? absl::OkStatus() : CheckBinEdges(spec, columns);
}

// "0", "1" and so on.
std::string_view BinName(size_t bin) {
  static const std::vector<std::string>& names = *[] {
    auto* const all = new std::vector<std::string>;
    for (uint32_t i = 0; i < kMostBins; ++i) all->push_back(std::to_string(i));
    return all;
  }();
  return names[bin];
}

bool HasCategories(const FeatureSpec& spec) {
  return !spec.categorical().empty() || !spec.bins().empty();
}

}  // namespace

Status CheckNameIsUtf8(std::string_view field, std::string_view name) {
  if (IsValidUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(field.data(), field.size()),
                                                 ": ", QuotedValue(name),
                                                 " is not valid UTF-8: give the name in UTF-8, and "
                                                 "convert a file that is in another encoding, "
                                                 "as by iconv -f latin1 -t utf-8"));
}

Status CheckNamesAreUtf8(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("label", spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("text", spec.text()));
  const auto check = [](std::string_view field, const auto& names) -> Status {
    for (const std::string& name : names) MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8(field, name));
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(check("classes", spec.classes()));
  MILLRACE_RETURN_IF_ERROR(check("numeric", spec.numeric()));
  MILLRACE_RETURN_IF_ERROR(check("categorical", spec.categorical()));
  MILLRACE_RETURN_IF_ERROR(check("missing_tokens", spec.missing_tokens()));
  MILLRACE_RETURN_IF_ERROR(check("bins", spec.bins()));
  for (const FeatureSpec::BinEdges& edges : spec.bin_edges()) {
    MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("bin_edges", edges.column()));
  }
  return check("ids", spec.ids());
}

Status CheckCrossesOfNumbers(const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> binned, BinnedColumns(spec));
  std::set<std::string> numbers(spec.numeric().begin(), spec.numeric().end());
  for (const BinnedColumn& each : binned) numbers.erase(each.column);
  for (const auto* terms : {&spec.categorical(), &spec.ids()}) {
    for (const std::string& term : *terms) numbers.erase(term);
  }
  for (const auto& [field, terms] :
       {std::pair("categorical", &spec.categorical()), std::pair("ids", &spec.ids())}) {
    for (const std::string& term : *terms) {
      for (const std::string& column : ColumnsOfTerm(term)) {
        if (!numbers.contains(column)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            Flagged(field), ": the cross ", QuotedValue(term), " names the numeric column ",
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
  std::set<std::string> numeric;
  for (const std::string& column : spec.numeric()) {
    MILLRACE_RETURN_IF_ERROR(CheckName("numeric", column, spec.label()));
    if (!numeric.insert(column).second) return Repeated(Flagged("numeric"), column);
  }
  MILLRACE_RETURN_IF_ERROR(CheckTerms("categorical", spec.categorical(), spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckTerms("ids", spec.ids(), spec.label()));
  MILLRACE_RETURN_IF_ERROR(CheckBins(spec));
  if (!spec.text().empty()) MILLRACE_RETURN_IF_ERROR(CheckName("text", spec.text(), spec.label()));

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
    features += spec.text_buckets();
  }
  // The bias is one more.
  if (features >= std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        features,
        " features do not fit into 32 bits: lower --categorical-buckets or --text-buckets"));
  }
  return absl::OkStatus();
}

StatusOr<FeatureEncoder> FeatureEncoder::Create(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(spec));
  if (!spec.bins().empty() && spec.bin_edges().empty()) {
    return absl::InvalidArgumentError(
        "bins (--bins) has no bin_edges: start CsvProducer, which finds and publishes them");
  }
  if (spec.regression()) return FeatureEncoder(spec, LabelIndex());
  MILLRACE_ASSIGN_OR_RETURN(LabelIndex labels, LabelIndex::Create(ToVector(spec.classes())));
  return FeatureEncoder(spec, std::move(labels));
}

StatusOr<FeatureEncoder> FeatureEncoder::CreateWithoutClasses(const FeatureSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(spec));
  return FeatureEncoder(spec, LabelIndex());
}

FeatureEncoder::FeatureEncoder(const FeatureSpec& spec, LabelIndex labels)
    : labels_(std::move(labels)),
      regression_(spec.regression()),
      missing_(spec.missing()),
      missing_tokens_(ToVector(spec.missing_tokens())) {
  const std::vector<BinnedColumn> binned = BinnedColumns(spec).value();
  Require(spec.label());
  for (const std::string& column : spec.numeric()) numeric_.push_back(Require(column));
  if (has_indicators()) hashed_count_ += numeric_count();
  category_first_ = static_cast<uint32_t>(feature_count());
  if (HasCategories(spec)) {
    std::vector<std::string> terms = ToVector(spec.categorical());
    for (const BinnedColumn& each : binned) terms.push_back(each.column);
    category_hasher_.emplace(terms, spec.categorical_buckets());
    RequireTerms(terms, "categorical", &categorical_);
    hashed_count_ += spec.categorical_buckets();
  }
  if (!spec.ids().empty()) {
    id_hasher_.emplace(ToVector(spec.ids()), 1);
    RequireTerms(ToVector(spec.ids()), "ids", &ids_);
  }
  if (!spec.text().empty()) {
    text_hasher_.emplace(spec.text_buckets());
    text_ = Require(spec.text());
    text_first_ = static_cast<uint32_t>(feature_count());
    hashed_count_ += spec.text_buckets();
  }
  AddBins(spec, binned);
}

size_t FeatureEncoder::Require(std::string_view column, std::string cross) {
  const auto it = std::find(columns_.begin(), columns_.end(), column);
  const size_t position = static_cast<size_t>(it - columns_.begin());
  if (it == columns_.end()) {
    columns_.emplace_back(column);
    crosses_.push_back(std::move(cross));
  }
  return position;
}

// In the order of CategoryHasher::columns().
void FeatureEncoder::RequireTerms(const std::vector<std::string>& terms, std::string_view field,
                                  std::vector<size_t>* positions) {
  for (const std::string& term : terms) {
    const std::vector<std::string> columns = ColumnsOfTerm(term);
    std::string cross;
    if (columns.size() > 1) cross = absl::StrCat(Flagged(field), ": the cross ", QuotedValue(term));
    for (const std::string& column : columns) {
      const size_t position = Require(column, cross);
      if (std::find(positions->begin(), positions->end(), position) == positions->end()) {
        positions->push_back(position);
      }
    }
  }
}

void FeatureEncoder::AddBins(const FeatureSpec& spec, const std::vector<BinnedColumn>& binned) {
  bins_of_.resize(columns_.size());
  for (size_t i = 0; i < binned.size(); ++i) {
    Bins& bins = bins_.emplace_back();
    bins.column = Require(binned[i].column);
    const auto numeric = std::find(numeric_.begin(), numeric_.end(), bins.column);
    if (numeric != numeric_.end()) bins.numeric = static_cast<size_t>(numeric - numeric_.begin());
    bins_of_[bins.column] = i;
    if (spec.bin_edges().empty()) continue;
    const auto& edges = spec.bin_edges(static_cast<int>(i)).edge();
    bins.edges.assign(edges.begin(), edges.end());
  }
}

Status FeatureEncoder::Encode(std::span<const std::string_view> fields, Row* row) {
  MILLRACE_CHECK(fields.size() == columns_.size());
  const std::string_view label = TrimSpaces(fields[0]);
  if (regression_) {
    double target = 0;
    MILLRACE_RETURN_IF_ERROR(EncodeTarget(label, &target));
    MILLRACE_RETURN_IF_ERROR(EncodeFeatures(fields.subspan(1), row));
    row->target = static_cast<float>(target);
    return absl::OkStatus();
  }
  const std::optional<uint32_t> id = labels_.Find(label);
  if (!id) return UnknownLabel(columns_[0], label, labels_.names());
  MILLRACE_RETURN_IF_ERROR(EncodeFeatures(fields.subspan(1), row));
  row->label = *id;
  return absl::OkStatus();
}

Status FeatureEncoder::EncodeFeatures(std::span<const std::string_view> fields, Row* row) {
  MILLRACE_CHECK(fields.size() + 1 == columns_.size());
  row->label = 0;
  row->target = 0;
  row->ids.clear();
  row->index.clear();
  row->value.clear();
  row->numeric.resize(numeric_.size());
  for (size_t i = 0; i < numeric_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(numeric_[i], fields[numeric_[i] - 1], &row->numeric[i]));
    if (std::isnan(row->numeric[i]) && has_indicators()) {
      row->index.push_back(static_cast<uint32_t>(numeric_count() + i));
      row->value.push_back(1);
    }
  }
  MILLRACE_RETURN_IF_ERROR(FindBins(fields, row->numeric));
  if (id_hasher_) {
    MILLRACE_RETURN_IF_ERROR(TrimCells(ids_, fields));
    id_hasher_->SetIds(cells_, &row->ids);
  }
  if (category_hasher_) {
    MILLRACE_RETURN_IF_ERROR(TrimCells(categorical_, fields));
    category_hasher_->Append(cells_, category_first_, &row->index, &row->value);
  }
  if (text_hasher_ &&
      !text_hasher_->Append(fields[text_ - 1], text_first_, &row->index, &row->value)) {
    return CellError(columns_[text_], fields[text_ - 1], "is not valid UTF-8");
  }
  return absl::OkStatus();
}

// (Fields without the label.)
Status FeatureEncoder::FindBins(std::span<const std::string_view> fields,
                                const std::vector<double>& numeric) {
  for (Bins& bins : bins_) {
    double value = 0;
    if (bins.numeric) {
      value = numeric[*bins.numeric];
    } else {
      MILLRACE_RETURN_IF_ERROR(EncodeNumeric(bins.column, fields[bins.column - 1], &value));
    }
    bins.cell = std::isnan(value) ? std::string_view() : BinName(BinOf(bins.edges, value));
  }
  return absl::OkStatus();
}

Status FeatureEncoder::TrimCells(const std::vector<size_t>& columns,
                                 std::span<const std::string_view> fields) {
  cells_.clear();
  for (size_t column : columns) {
    if (bins_of_[column]) {
      cells_.push_back(bins_[*bins_of_[column]].cell);
      continue;
    }
    if (!IsValidUtf8(fields[column - 1])) {
      return CellError(columns_[column], fields[column - 1], "is not valid UTF-8");
    }
    cells_.push_back(TrimSpaces(fields[column - 1]));
  }
  return absl::OkStatus();
}

Status FeatureEncoder::EncodeTarget(std::string_view cell, double* target) const {
  const bool is_number = ParseNumber(cell, target) == NumberKind::kNumber;
  // Its square must be a float's, too.
  if (is_number && std::abs(*target) <= 1e18) return absl::OkStatus();
  return CellError(columns_[0], cell,
                   "is not a number within -1e18 and 1e18 (the job is a regression)");
}

Status FeatureEncoder::CheckFeatures(std::span<const std::string_view> fields) const {
  MILLRACE_CHECK(fields.size() == columns_.size());
  double ignored;
  for (size_t column : numeric_) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(column, fields[column], &ignored));
  }
  for (const Bins& bins : bins_) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(bins.column, fields[bins.column], &ignored));
  }
  for (const std::vector<size_t>* columns : {&ids_, &categorical_}) {
    for (size_t column : *columns) {
      if (!bins_of_[column] && !IsValidUtf8(fields[column])) {
        return CellError(columns_[column], fields[column], "is not valid UTF-8");
      }
    }
  }
  if (text_hasher_ && !IsValidUtf8(fields[text_])) {
    return CellError(columns_[text_], fields[text_], "is not valid UTF-8");
  }
  return absl::OkStatus();
}

Status FeatureEncoder::ReadBinned(std::span<const std::string_view> fields,
                                  std::vector<double>* values) const {
  MILLRACE_CHECK(fields.size() == columns_.size());
  values->resize(bins_.size());
  for (size_t i = 0; i < bins_.size(); ++i) {
    const size_t column = bins_[i].column;
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(column, fields[column], &(*values)[i]));
  }
  return absl::OkStatus();
}

Status FeatureEncoder::EncodeNumeric(size_t column, std::string_view cell, double* value) const {
  const std::string_view text = TrimSpaces(cell);
  const NumberKind kind = ParseNumber(text, value);
  const bool is_missing =
      kind == NumberKind::kNumber ? missing_tokens_.IsNumber(*value) : missing_tokens_.IsText(text);
  if (is_missing) {
    *value = std::numeric_limits<double>::quiet_NaN();
    if (missing_ != FeatureSpec::REJECT) return absl::OkStatus();
    return CellError(columns_[column], cell,
                     "is a missing value (--missing mean takes the mean of the column)");
  }
  if (kind == NumberKind::kNumber) return absl::OkStatus();
  if (kind == NumberKind::kTooLarge) {
    return CellError(columns_[column], cell, "is beyond the range of a double");
  }
  return CellError(
      columns_[column], cell,
      "is not a number (if it means that there is no value, add it to --missing-tokens)");
}

}  // namespace millrace
