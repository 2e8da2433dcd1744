#include "producer/label_decoder.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

// A label's record is a row with one feature, its key.
StatusOr<FeatureSpec> SpecOfLabels(const FeatureSpec& rows, const std::string& key_column) {
  if (key_column.find('*') != std::string::npos) {
    return absl::InvalidArgumentError("--join-key: the name of a column here has no *");
  }
  if (key_column == rows.label()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--join-key names the column ", QuotedValue(key_column),
                     ", which is the label: name the column that rows and labels have in common"));
  }
  FeatureSpec spec;
  spec.set_label(rows.label());
  *spec.mutable_classes() = rows.classes();
  spec.set_regression(rows.regression());
  spec.set_decimal_comma(rows.decimal_comma());
  spec.add_categorical(key_column);
  spec.set_categorical_buckets(1);
  return spec;
}

std::vector<std::string> Columns(const FeatureSpec& spec) {
  return {spec.label(), spec.categorical(0)};
}

}  // namespace

StatusOr<LabelDecoder> LabelDecoder::Create(const FeatureSpec& spec, const std::string& key_column,
                                            const SourceFormat& format) {
  MILLRACE_ASSIGN_OR_RETURN(const FeatureSpec of_labels, SpecOfLabels(spec, key_column));
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(of_labels));
  MILLRACE_ASSIGN_OR_RETURN(CellDecoder cells, format.MakeDecoder(Columns(of_labels)));
  return LabelDecoder(key_column, std::move(encoder), std::move(cells));
}

Status LabelDecoder::Check(const FeatureSpec& spec, const std::string& key_column,
                           const SourceFormat& format) {
  MILLRACE_ASSIGN_OR_RETURN(const FeatureSpec of_labels, SpecOfLabels(spec, key_column));
  return format.MakeDecoder(Columns(of_labels)).status();
}

Status LabelDecoder::Decode(std::string_view value, std::string* key, JoinedLabel* label) {
  return cells_(value, [&](std::span<const std::string_view> cells) -> Status {
    if (cells[1].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("no key to find rows by: column ",
                                                     QuotedValue(key_column_),
                                                     " (--join-key) is empty or not there"));
    }
    MILLRACE_RETURN_IF_ERROR(encoder_.Encode(cells, &row_));
    key->assign(cells[1]);
    *label = {row_.label, row_.target};
    return absl::OkStatus();
  });
}

StatusOr<JoinedLabel> LabelDecoder::Read(std::string_view cell) {
  const std::array<std::string_view, 2> cells = {cell, "key"};
  MILLRACE_RETURN_IF_ERROR(encoder_.Encode(cells, &row_));
  return JoinedLabel{row_.label, row_.target};
}

}  // namespace millrace
