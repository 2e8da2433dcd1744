#include "features/feature_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/utf8.h"
#include "features/name_list.h"
#include "features/number.h"
#include "features/quantile_bins.h"
#include "features/quoted_value.h"
#include "features/spec_checks.h"
#include "features/truth_value.h"

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

Status NotUtf8(std::string_view column, std::string_view value) {
  return CellError(column, value,
                   "is not valid UTF-8 (if the file is in latin-1, give --encoding latin1)");
}

// What is wrong with a cell that is a number with the other decimal sign; else empty.
std::string_view OtherDecimalSign(std::string_view text, bool decimal_comma) {
  double ignored;
  if (decimal_comma && ParseNumber(text, &ignored) == NumberKind::kNumber) {
    return "is not a number with a decimal comma (--decimal-comma)";
  }
  if (!decimal_comma && ParseCommaNumber(text, &ignored) == NumberKind::kNumber) {
    return "is not a number (if the comma is its decimal sign, give --decimal-comma)";
  }
  return "";
}

// With the likeliest remedy.
Status NotANumber(std::string_view column, std::string_view cell, std::string_view text,
                  bool decimal_comma) {
  const std::string_view other_sign = OtherDecimalSign(text, decimal_comma);
  if (!other_sign.empty()) return CellError(column, cell, other_sign);
  if (BooleanOf(text)) {
    return CellError(column, cell,
                     "is not a number (if the column says yes or no, name it in --booleans)");
  }
  return CellError(
      column, cell,
      "is not a number (if it means that there is no value, add it to --missing-tokens)");
}

Status UnknownLabel(std::string_view column, std::string_view label,
                    const std::vector<std::string>& classes) {
  if (label.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("column ", QuotedValue(column), ": the label is empty"));
  }
  if (!IsValidUtf8(label)) return NotUtf8(column, label);
  std::vector<std::string> shown(
      classes.begin(),
      classes.begin() + static_cast<ptrdiff_t>(std::min(classes.size(), kShownClasses)));
  if (shown.size() < classes.size()) shown.push_back("...");
  return CellError(column, label,
                   absl::StrCat("is none of the classes (", absl::StrJoin(shown, ", "), ")"));
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

}  // namespace

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
      decimal_comma_(spec.decimal_comma()),
      missing_tokens_(ToVector(spec.missing_tokens()), spec.decimal_comma()) {
  spec_times_ = ToVector(spec.times());
  const std::vector<BinnedColumn> binned = BinnedColumns(spec).value();
  Require(spec.label());
  for (const std::string& column : spec.numeric()) numeric_.push_back(Require(column));
  if (has_indicators()) hashed_count_ += numeric_count();
  category_first_ = static_cast<uint32_t>(feature_count());
  if (HasCategories(spec)) {
    std::vector<std::string> terms = ToVector(spec.categorical());
    for (const BinnedColumn& each : binned) terms.push_back(TermOfColumn(each.column));
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
    for (const std::string& column : spec.text()) {
      texts_.push_back({Require(column), static_cast<uint32_t>(feature_count())});
      hashed_count_ += spec.text_buckets();
    }
  }
  AddBins(spec, binned);
  is_boolean_.resize(columns_.size());
  for (const std::string& column : spec.booleans()) is_boolean_[Require(column)] = true;
}

size_t FeatureEncoder::Require(std::string_view column, std::string cross) {
  const auto it = std::find(columns_.begin(), columns_.end(), column);
  const size_t position = static_cast<size_t>(it - columns_.begin());
  if (it != columns_.end()) return position;
  if (const auto part = FindTimePart(spec_times_, column)) {
    return RequirePart(*part, column, std::move(cross));
  }
  required_of_.emplace_back(RequireFromFile(column, std::move(cross)));
  columns_.emplace_back(column);
  return position;
}

size_t FeatureEncoder::RequireFromFile(std::string_view column, std::string cross) {
  const auto it = std::find(required_.begin(), required_.end(), column);
  const size_t position = static_cast<size_t>(it - required_.begin());
  if (it == required_.end()) {
    required_.emplace_back(column);
    crosses_.push_back(std::move(cross));
  }
  return position;
}

size_t FeatureEncoder::RequirePart(const TimePartName& part, std::string_view name,
                                   std::string cross) {
  const std::string& column = spec_times_[part.column];
  const auto it = std::find(time_names_.begin(), time_names_.end(), column);
  const size_t time = static_cast<size_t>(it - time_names_.begin());
  if (it == time_names_.end()) {
    time_names_.push_back(column);
    times_.push_back(RequireFromFile(column, std::move(cross)));
  }
  const auto after = std::find_if(parts_.begin(), parts_.end(),
                                  [time](const Part& other) { return other.time > time; });
  parts_.insert(after, {time, columns_.size(), part.part});
  required_of_.emplace_back();
  columns_.emplace_back(name);
  return columns_.size() - 1;
}

StatusOr<std::span<const std::string_view>> FeatureEncoder::Expand(
    std::span<const std::string_view> fields) const {
  if (parts_.empty()) return fields;  // the columns are those of the file
  expanded_.resize(columns_.size() - 1);
  for (size_t i = 1; i < columns_.size(); ++i) {
    if (required_of_[i]) expanded_[i - 1] = fields[*required_of_[i] - 1];
  }
  std::optional<WallTime> time;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const std::string_view field = fields[times_[part.time] - 1];
    if (i == 0 || parts_[i - 1].time != part.time) {
      const std::string_view cell = TrimSpaces(field);
      time = ParseWallTime(cell);
      if (!time && !missing_tokens_.IsText(cell)) {
        return CellError(time_names_[part.time], field,
                         "is not a time (seconds, milliseconds, ISO 8601 or DD.MM.YYYY; if it "
                         "means that there is no value, add it to --missing-tokens)");
      }
    }
    expanded_[part.column - 1] =
        time ? WriteTimePart(part.part, *time, &part.room) : std::string_view();
  }
  return expanded_;
}

// In the order of CategoryHasher::columns().
void FeatureEncoder::RequireTerms(const std::vector<std::string>& terms, std::string_view field,
                                  std::vector<size_t>* positions) {
  for (const std::string& term : terms) {
    const std::vector<std::string> columns = ColumnsOfTerm(term);
    std::string cross;
    if (columns.size() > 1)
      cross = absl::StrCat(FlaggedField(field), ": the cross ", QuotedValue(term));
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
  MILLRACE_CHECK(fields.size() == required_.size());
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
  MILLRACE_CHECK(fields.size() + 1 == required_.size());
  MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::string_view> cells, Expand(fields));
  row->label = 0;
  row->target = 0;
  row->ids.clear();
  row->index.clear();
  row->value.clear();
  row->numeric.resize(numeric_.size());
  for (size_t i = 0; i < numeric_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(numeric_[i], cells[numeric_[i] - 1], &row->numeric[i]));
    if (std::isnan(row->numeric[i]) && has_indicators()) {
      row->index.push_back(static_cast<uint32_t>(numeric_count() + i));
      row->value.push_back(1);
    }
  }
  MILLRACE_RETURN_IF_ERROR(FindBins(cells, row->numeric));
  if (id_hasher_) {
    MILLRACE_RETURN_IF_ERROR(TrimCells(ids_, cells));
    id_hasher_->SetIds(cells_, &row->ids);
  }
  if (category_hasher_) {
    MILLRACE_RETURN_IF_ERROR(TrimCells(categorical_, cells));
    category_hasher_->Append(cells_, category_first_, &row->index, &row->value);
  }
  for (const Text& text : texts_) {
    const std::string_view cell = cells[text.column - 1];
    if (!text_hasher_->Append(cell, text.first, &row->index, &row->value)) {
      return NotUtf8(columns_[text.column], cell);
    }
  }
  return absl::OkStatus();
}

// (Cells of columns_ but the label.)
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
      return NotUtf8(columns_[column], fields[column - 1]);
    }
    cells_.push_back(TrimSpaces(fields[column - 1]));
  }
  return absl::OkStatus();
}

Status FeatureEncoder::EncodeTarget(std::string_view cell, double* target) const {
  const NumberKind kind =
      decimal_comma_ ? ParseCommaNumber(cell, target) : ParseNumber(cell, target);
  const bool is_number = kind == NumberKind::kNumber;
  // Its square must be a float's, too.
  if (is_number && std::abs(*target) <= 1e18) return absl::OkStatus();
  const std::string_view other_sign =
      is_number ? std::string_view() : OtherDecimalSign(cell, decimal_comma_);
  if (!other_sign.empty()) return CellError(columns_[0], cell, other_sign);
  return CellError(columns_[0], cell,
                   "is not a number within -1e18 and 1e18 (the job is a regression)");
}

Status FeatureEncoder::CheckFeatures(std::span<const std::string_view> fields) const {
  MILLRACE_CHECK(fields.size() == required_.size());
  MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::string_view> cells,
                            Expand(fields.subspan(1)));
  return CheckCells(cells);
}

Status FeatureEncoder::CheckCells(std::span<const std::string_view> cells) const {
  const auto cell_of = [cells](size_t column) { return cells[column - 1]; };
  double ignored;
  for (size_t column : numeric_) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(column, cell_of(column), &ignored));
  }
  for (const Bins& bins : bins_) {
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(bins.column, cell_of(bins.column), &ignored));
  }
  for (const std::vector<size_t>* columns : {&ids_, &categorical_}) {
    for (size_t column : *columns) {
      if (!bins_of_[column] && !IsValidUtf8(cell_of(column))) {
        return NotUtf8(columns_[column], cell_of(column));
      }
    }
  }
  for (const Text& text : texts_) {
    if (!IsValidUtf8(cell_of(text.column))) {
      return NotUtf8(columns_[text.column], cell_of(text.column));
    }
  }
  return absl::OkStatus();
}

Status FeatureEncoder::ReadBinned(std::span<const std::string_view> fields,
                                  std::vector<double>* values) const {
  MILLRACE_CHECK(fields.size() == required_.size());
  MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::string_view> cells,
                            Expand(fields.subspan(1)));
  values->resize(bins_.size());
  for (size_t i = 0; i < bins_.size(); ++i) {
    const size_t column = bins_[i].column;
    MILLRACE_RETURN_IF_ERROR(EncodeNumeric(column, cells[column - 1], &(*values)[i]));
  }
  return absl::OkStatus();
}

Status FeatureEncoder::EncodeNumeric(size_t column, std::string_view cell, double* value) const {
  const std::string_view text = TrimSpaces(cell);
  // (The parts of a time are written with a point.)
  const bool has_comma = decimal_comma_ && required_of_[column];
  const NumberKind kind = has_comma ? ParseCommaNumber(text, value) : ParseNumber(text, value);
  const bool is_missing =
      kind == NumberKind::kNumber ? missing_tokens_.IsNumber(*value) : missing_tokens_.IsText(text);
  if (is_missing) {
    *value = std::numeric_limits<double>::quiet_NaN();
    if (missing_ != FeatureSpec::REJECT) return absl::OkStatus();
    return CellError(columns_[column], cell,
                     "is a missing value (--missing mean takes the mean of the column)");
  }
  if (is_boolean_[column]) {
    const std::optional<double> truth = BooleanOf(text);
    if (truth) *value = *truth;
    return truth ? absl::OkStatus()
                 : CellError(columns_[column], cell,
                             "is not true or false, yes or no, t or f, y or n, on or off, 1 or 0 "
                             "(--booleans)");
  }
  if (kind == NumberKind::kNumber) return absl::OkStatus();
  if (kind == NumberKind::kTooLarge) {
    return CellError(columns_[column], cell, "is beyond the range of a double");
  }
  if (const std::optional<double> truth = TruthOf(text)) {
    *value = *truth;
    return absl::OkStatus();
  }
  return NotANumber(columns_[column], cell, text, decimal_comma_);
}

}  // namespace millrace
