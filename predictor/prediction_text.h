// Predictions as text: as JSON, and as the columns that a scored file gets.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "messages/features.pb.h"

namespace millrace {

// The class of the highest score, the first of equal ones.
size_t PredictedClass(std::span<const float> scores);

// Numbers are written with as many digits as give the same 32-bit float again. Immutable.
class PredictionText {
 public:
  explicit PredictionText(const FeatureSpec& spec);

  // {"class":"yes","probabilities":{"no":0.25,"yes":0.75}}; of a regression {"estimate":12.5}. What
  // is no finite number is null. `scores`: a row's.
  void AppendJson(std::span<const float> scores, std::string* out) const;

  // predicted_LABEL, and of a classification a column probability_CLASS for each class.
  const std::vector<std::string>& columns() const { return columns_; }
  // The cells of columns(), each behind a delimiter. What is no finite number is nan.
  void AppendCells(std::span<const float> scores, char delimiter, std::string* out) const;

 private:
  std::vector<std::string> classes_;       // as they are; none: a regression
  std::vector<std::string> json_classes_;  // as JSON strings
  std::vector<std::string> columns_;
};

}  // namespace millrace
