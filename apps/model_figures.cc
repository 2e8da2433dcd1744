#include "apps/model_figures.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "messages/records.pb.h"
#include "topics/figures_codec.h"
#include "topics/figures_verdict.h"
#include "watch/figures_json.h"

namespace millrace {
namespace {

std::string Cell(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

nlohmann::ordered_json ModelFiguresJson(const EvaluationSums& sums, const FeatureSpec& features) {
  const Figures figures = ToFigures(sums, static_cast<size_t>(features.classes_size()));
  nlohmann::ordered_json json = FiguresJson(figures, features.classes());
  const std::optional<std::string> warning = WorseThanPriorText(figures, FiguresOf::kScored);
  json[kWorseThanPrior] = warning ? nlohmann::ordered_json(*warning) : nlohmann::ordered_json();
  return json;
}

std::vector<std::string> FiguresSideBySide(const nlohmann::ordered_json& model,
                                           const nlohmann::ordered_json& challenger) {
  constexpr size_t kName = 20;
  constexpr size_t kNumber = 14;
  const auto line = [](const std::string& name, const std::string& a, const std::string& b) {
    return name + Cell(a, name.size() < kName ? kName - name.size() + kNumber : kNumber) +
           Cell(b, kNumber);
  };
  std::vector<std::string> lines = {line("", "model", "challenger")};
  for (const auto& [name, value] : model.items()) {
    const auto other = challenger.find(name);
    if (!value.is_number() || other == challenger.end()) continue;
    lines.push_back(line(name, value.dump(), other->dump()));
  }
  return lines;
}

}  // namespace millrace
