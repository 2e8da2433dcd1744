// Learners and rows for tests of online learning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "models/online_softmax.h"
#include "tests/models/random_rows.h"

namespace millrace {

// Rows whose labels follow from a few of their features, with noise.
inline std::vector<Row> LearnableRows(const OnlineSoftmax::Shape& shape, size_t count,
                                      unsigned seed) {
  std::mt19937 random(seed);
  const size_t hashed = shape.features - shape.numeric;
  std::vector<Row> rows = RandomRows({.numeric = shape.numeric,
                                      .hashed = hashed,
                                      .hashed_in_row = std::min<size_t>(hashed, 3),
                                      .missing = 0.1},
                                     shape.classes, count, random);
  for (Row& row : rows) {
    double sum = 0;
    for (const double value : row.numeric) sum += std::isnan(value) ? 0.3 : value;
    for (size_t i = 0; i < row.index.size(); ++i) {
      sum += (row.index[i] % 2 == 0 ? 1 : -1) * static_cast<double>(row.value[i]);
    }
    if (random() % 4 == 0) continue;
    const double place = std::clamp(sum + 1.5, 0.0, 2.9) / 3;
    row.label = static_cast<uint32_t>(place * static_cast<double>(shape.classes));
  }
  return rows;
}

inline bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

struct LearnerCase {
  OnlineSoftmax::Shape shape;
  std::vector<float> class_weights{};
};

inline std::vector<LearnerCase> SomeLearners() {
  return {{.shape = {.numeric = 3, .features = 3, .classes = 2}},
          {.shape = {.numeric = 0, .features = 12, .classes = 2}},
          {.shape = {.numeric = 3, .features = 15, .classes = 2}, .class_weights = {0.5f, 2.25f}},
          {.shape = {.numeric = 2, .features = 9, .classes = 3}},
          {.shape = {.numeric = 90, .features = 90, .classes = 2}},  // of large rows
          {.shape = {.numeric = 4, .features = 24, .classes = 7},
           .class_weights = {1, 2, 0.25f, 1, 3, 0, 1}}};
}

}  // namespace millrace
