// Figures as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "messages/records.pb.h"

namespace millrace {

// Six digits are more than any figure is worth, and read better than seventeen.
double Short(double value);
// Null when it is not known.
nlohmann::ordered_json Short(std::optional<double> value);

// Fields in docs/figures.md. REQUIRES: CheckFigures.
nlohmann::ordered_json FiguresJson(
    const Figures& figures, const google::protobuf::RepeatedPtrField<std::string>& class_names);

}  // namespace millrace
