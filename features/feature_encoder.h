// Turns the fields of a raw record into the features and the class id of a Row. The same code
// serves training rows, evaluation files and, later, predictors and JSON rows: all that it depends
// on is the FeatureSpec, which travels with the job.
//
// Feature space: numeric columns are features [0, N) in the order of the spec; then come the hashed
// features, [N, N + I + C + T): indicators of missing numbers have [N, N + I), categorical columns
// (those of bins, too) share the buckets [N + I, N + I + C), and the text columns have T / K
// buckets each, in the order of the spec, from N + I + C on, where K is their number. I is N under
// Missing.MEAN_AND_INDICATOR, else 0; C and T are 0 without such columns. The bias is not counted
// here.
//
//  - Numeric cells: see features/number.h; with decimal_comma those with a comma. true and false
//  are
//    1 and 0, in any case of letters.
//    A column of booleans has nothing but such words (features/truth_value.h). A cell that means
//    "missing" (features/missing_tokens.h) is an error under Missing.REJECT, else NaN in the row.
//    Under Missing.MEAN_AND_INDICATOR a row in which numeric column i is missing also has the
//    feature N + i, with the value 1.
//  - Categorical cells: see features/category_hasher.h. An empty cell is a category of its own.
//  - Columns of bins (features/quantile_bins.h): their cells are read as those of numeric columns,
//    and each is a categorical column, too. There, in crosses and among the ids, the cell is the
//    number of its bin ("0", "1", ...), and empty if it has no value. Whether the column is also a
//    numeric feature is up to spec.numeric.
//  - Ids: the keys of categorical cells, not as features but as 64-bit ids of embedding rows.
//  - Text: see features/text_hasher.h.
//  - Times: see features/time_parts.h. The further columns of a column of times are read as any
//    other; if the time is empty, or a token that means "missing", so are they.
//  - Label: see features/label_index.h; of a regression a number, the row's target.
// Spaces and tabs around a numeric, categorical or label cell do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "features/category_hasher.h"
#include "features/label_index.h"
#include "features/missing_tokens.h"
#include "features/quantile_bins.h"
#include "features/text_hasher.h"
#include "features/time_parts.h"
#include "messages/features.pb.h"
#include "models/row.h"

namespace millrace {

// Not thread-safe (it owns scratch memory); copies are independent.
class FeatureEncoder {
 public:
  // `spec` must be complete: ValidateColumns() and at least two distinct classes, or a regression,
  // and the edges of all bins.
  static StatusOr<FeatureEncoder> Create(const FeatureSpec& spec);

  // For records without a label, or before classes and edges are known: spec.classes is not looked
  // at, to Encode() every label is unknown, and without edges there is one bin.
  static StatusOr<FeatureEncoder> CreateWithoutClasses(const FeatureSpec& spec);

  // The names of the columns that Encode() reads, distinct, the label first.
  const std::vector<std::string>& required_columns() const { return required_; }
  // The columns of times whose further columns are read.
  const std::vector<std::string>& times() const { return time_names_; }

  size_t numeric_count() const { return numeric_.size(); }  // N
  size_t hashed_count() const { return hashed_count_; }     // H = I + C + T
  size_t feature_count() const { return numeric_count() + hashed_count(); }
  size_t class_count() const { return labels_.size(); }

  // Makes *row of one record, given by its fields in the order of required_columns(). All of *row
  // is overwritten; with a warm row nothing is allocated. The error names the column, the value and
  // what is wrong with it; *row is then unspecified. Columns that are not required may hold
  // anything, invalid UTF-8 too.
  Status Encode(std::span<const std::string_view> fields, Row* row);

  // The same for records without a label, for predictors: fields of required_columns() but the
  // first. row->label becomes 0.
  Status EncodeFeatures(std::span<const std::string_view> fields, Row* row);

  // Whether Encode() would take all but the label of this record. Fields as for Encode().
  Status CheckFeatures(std::span<const std::string_view> fields) const;

  // The numbers in the columns of bins, in their order; NaN where missing. Fields as for Encode().
  Status ReadBinned(std::span<const std::string_view> fields, std::vector<double>* values) const;

  // If a cross was the first to name this one of required_columns(), the cross as messages name it;
  // else empty.
  const std::string& cross_of(size_t column) const { return crosses_[column]; }

 private:
  FeatureEncoder(const FeatureSpec& spec, LabelIndex labels);

  struct Text {
    size_t column = 0;   // position in columns_
    uint32_t first = 0;  // the first of its features
  };

  struct Bins {
    size_t column = 0;              // position in columns_
    std::optional<size_t> numeric;  // position in numeric_, if it is there, too
    std::vector<double> edges;
    std::string_view cell{};  // scratch: of the row
  };

  // A further column of a column of times.
  struct Part {
    size_t time = 0;    // position in times_
    size_t column = 0;  // position in columns_
    TimePart part{};
    mutable TimePartRoom room{};  // scratch
  };

  size_t Require(std::string_view column, std::string cross = "");
  size_t RequireFromFile(std::string_view column, std::string cross);
  size_t RequirePart(const TimePartName& part, std::string_view name, std::string cross);
  // From fields of required_columns() but the first to those of columns_ but the first. The views
  // are valid until the next call.
  StatusOr<std::span<const std::string_view>> Expand(
      std::span<const std::string_view> fields) const;
  Status CheckCells(std::span<const std::string_view> cells) const;
  void RequireTerms(const std::vector<std::string>& terms, std::string_view field,
                    std::vector<size_t>* positions);
  void AddBins(const FeatureSpec& spec, const std::vector<BinnedColumn>& binned);
  Status FindBins(std::span<const std::string_view> fields, const std::vector<double>& numeric);
  // Into cells_: of columns of bins the bins.
  Status TrimCells(const std::vector<size_t>& columns, std::span<const std::string_view> fields);
  Status EncodeTarget(std::string_view cell, double* target) const;
  Status EncodeNumeric(size_t column, std::string_view cell, double* value) const;
  bool has_indicators() const { return missing_ == FeatureSpec::MEAN_AND_INDICATOR; }

  std::vector<std::string> required_;    // of the file: the label, then in order of first use
  std::vector<std::string> crosses_;     // as cross_of() says
  std::vector<std::string> spec_times_;  // of the spec
  std::vector<std::string> time_names_;  // those of them that are needed
  std::vector<size_t> times_;            // their positions in required_
  std::vector<Part> parts_;              // in the order of their times
  std::vector<std::string> columns_;     // required_ and parts in order of first use
  std::vector<std::optional<size_t>>
      required_of_;  // of each of columns_, the position in required_
  LabelIndex labels_;
  bool regression_;
  FeatureSpec::Missing missing_;
  bool decimal_comma_;
  MissingTokens missing_tokens_;
  std::vector<size_t> numeric_;   // positions in columns_
  std::vector<bool> is_boolean_;  // of each of columns_
  std::vector<Bins> bins_;
  std::vector<std::optional<size_t>> bins_of_;  // of each of columns_, the position in bins_
  std::vector<size_t> categorical_;  // positions in columns_ of all that the hasher reads
  std::vector<size_t> ids_;          // positions in columns_ of all that the id hasher reads
  std::vector<Text> texts_;          // if there is a text hasher
  uint32_t category_first_ = 0;      // the first feature of the categorical columns
  std::optional<CategoryHasher> category_hasher_;
  std::optional<CategoryHasher> id_hasher_;
  std::optional<TextHasher> text_hasher_;
  size_t hashed_count_ = 0;
  std::vector<std::string_view> cells_;             // scratch: trimmed categorical cells
  mutable std::vector<std::string_view> expanded_;  // scratch: of Expand()
};

}  // namespace millrace
