// What each column has added to the score of a row, where the model is linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "features/feature_encoder.h"
#include "models/row.h"

namespace millrace {

// A linear model's score is the sum of an offset and of a part for each column, cross of columns
// and column of ids that the job names. Parts of one name (a numeric column that has bins, too) are
// one. Of a mixed model, whose weights are an average over the learning rates that raced, the parts
// are those of the average, as the scores are. Not thread-safe.
class Contributions {
 public:
  // FailedPrecondition: the model is not linear, or has not learnt from any row.
  static StatusOr<Contributions> Create(std::shared_ptr<const ModelScorer> model);
  // Tells of this model from here on; the errors are the same. REQUIRES: it has the features of the
  // first one, whose encoders are kept: to make them is dear.
  Status Use(std::shared_ptr<const ModelScorer> model);
  // Lets go of the model, which may be large. Nothing but Use may be called then.
  void Release() { model_.reset(); }

  // Of a row by its cells in the order of RowScorer::columns(), which a RowScorer has taken:
  //   two classes   {"of":"yes","offset":-0.5,"parts":{"distance":0.25,..}}, which add up to the
  //                 log odds of that class, the second one
  //   more          {"offset":{"low":..,..},"parts":{"distance":{"low":..,..},..}}, which add up to
  //                 scores whose softmax are the probabilities
  //   a regression  {"offset":..,"parts":{..}}, which add up to the estimate, before it is limited
  // Sums of 64-bit numbers; the score itself is one of 32-bit numbers. What is no finite number is
  // null.
  Status AppendJson(std::span<const std::string_view> cells, std::string* out);

  // As columns of a table: offset_LABEL and contribution_PART for each part; of more than two
  // classes one of each class instead, with ":CLASS" behind the name.
  std::vector<std::string> columns() const;
  // The numbers of columns(), of the same row, each behind a delimiter. What is no finite number is
  // nan.
  Status AppendCells(std::span<const std::string_view> cells, char delimiter, std::string* out);

 private:
  // The features that one column, or cross, has in the model, by an encoder of it alone.
  struct Part {
    size_t name = 0;  // position in names_
    FeatureEncoder encoder;
    std::vector<size_t> cells;            // of the encoder's columns, positions in those of the row
    std::optional<size_t> numeric;        // the numeric column
    std::optional<uint32_t> own_first{};  // of the encoder's features, the first that counts ..
    uint32_t first = 0;                   // .. and which of the model's it is
    bool has_ids = false;                 // its ids count
    double sign = 1;                      // -1: what the encoder cannot leave out is taken away
  };

  explicit Contributions(std::shared_ptr<const ModelScorer> model) : model_(std::move(model)) {}

  Status AddNumeric();
  Status AddCategories();
  Status AddIds();
  Status AddTexts();
  // Of a sub-specification; `name` as in the answer.
  Status AddPart(const FeatureSpec& spec, const std::string& name, Part** added);
  FeatureSpec EmptySpec() const;
  void AddBins(const std::vector<std::string>& columns, FeatureSpec& spec) const;
  void AddFeature(uint64_t feature, double value, std::span<double> sums) const;
  void AddRow(const Part& part, const Row& row, std::span<double> sums) const;
  void AddWeights(std::span<const float> weights, double value, std::span<double> sums) const;
  Status Compute(std::span<const std::string_view> cells);
  std::span<double> SumsOf(size_t name);
  std::vector<double> NumbersOf(size_t name);
  void AppendNumbers(size_t name, std::string* out);

  std::shared_ptr<const ModelScorer> model_;
  std::vector<std::string> columns_;  // of a row
  std::vector<std::string> names_;    // of the parts, distinct
  std::vector<std::string> json_names_;
  std::vector<std::string> json_classes_;
  std::vector<Part> parts_;
  Row row_;                   // scratch, as is what follows
  std::vector<double> sums_;  // of each name, then the offset: a score each, or one of each class
};

}  // namespace millrace
