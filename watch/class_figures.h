// How good a model is on each class. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/records.pb.h"

namespace millrace {

struct ClassFigures {
  std::string name;  // "class 3" when the job's points do not tell it
  uint64_t rows = 0;
  uint64_t predicted = 0;
  std::optional<double> precision;  // empty: no row is predicted to have the class
  std::optional<double> recall;     // empty: no row has it
  std::optional<double> f1;         // empty: neither
};

// By class id; empty when the figures tell of no class. REQUIRES: CheckFigures.
std::vector<ClassFigures> ClassFiguresOf(
    const Figures& figures, const google::protobuf::RepeatedPtrField<std::string>& names);

// A cell of the confusion matrix.
struct Confusion {
  size_t label = 0;
  size_t predicted = 0;
  uint64_t rows = 0;
};

// The cells that are not 0, by label and prediction; empty when the figures do not tell of them.
// REQUIRES: CheckFigures.
std::vector<Confusion> ConfusionsOf(const Figures& figures);

}  // namespace millrace
