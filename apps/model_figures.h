// Figures of what a model has predicted, as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "messages/features.pb.h"
#include "models/evaluation.h"

namespace millrace {

// The field that says in words that the model is worse than the prior; null: it is not.
inline constexpr char kWorseThanPrior[] = "worse_than_prior";

// Fields in docs/figures.md. `features`: the model's; its classes matter.
nlohmann::ordered_json ModelFiguresJson(const EvaluationSums& sums, const FeatureSpec& features);

// Lines of a table: each figure that is one number, of both.
std::vector<std::string> FiguresSideBySide(const nlohmann::ordered_json& model,
                                           const nlohmann::ordered_json& challenger);

}  // namespace millrace
