#include "predictor/prediction_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "formats/csv_cell.h"

namespace millrace {
namespace {

// `otherwise`: what stands for infinities, and for what is no number. (Large weights times large
// features may give such scores.)
void AppendNumber(float number, std::string_view otherwise, std::string* out) {
  if (!std::isfinite(number)) {
    *out += otherwise;
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out->append(digits.data(), end);
}

}  // namespace

size_t PredictedClass(std::span<const float> scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

PredictionText::PredictionText(const FeatureSpec& spec)
    : classes_(spec.classes().begin(), spec.classes().end()) {
  columns_.push_back(absl::StrCat("predicted_", spec.label()));
  for (const std::string& name : classes_) {
    json_classes_.push_back(nlohmann::json(name).dump());
    columns_.push_back(absl::StrCat("probability_", name));
  }
}

void PredictionText::AppendJson(std::span<const float> scores, std::string* out) const {
  if (classes_.empty()) {
    *out += "{\"estimate\":";
    AppendNumber(scores[0], "null", out);
    *out += '}';
    return;
  }
  MILLRACE_CHECK(scores.size() == json_classes_.size());
  *out += "{\"class\":";
  *out += json_classes_[PredictedClass(scores)];
  *out += ",\"probabilities\":{";
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i > 0) *out += ',';
    *out += json_classes_[i];
    *out += ':';
    AppendNumber(scores[i], "null", out);
  }
  *out += "}}";
}

void PredictionText::AppendCells(std::span<const float> scores, char delimiter,
                                 std::string* out) const {
  if (!classes_.empty()) {
    *out += delimiter;
    AppendCell(classes_[PredictedClass(scores)], delimiter, out);
  }
  for (const float score : scores) {
    *out += delimiter;
    AppendNumber(score, "nan", out);
  }
}

}  // namespace millrace
