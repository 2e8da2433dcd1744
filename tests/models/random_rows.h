// Random rows for the tests of models.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "models/model.h"

namespace millrace {

struct RandomRowShape {
  size_t numeric = 0;
  size_t hashed = 0;               // size of the hashed space
  size_t hashed_in_row = 0;        // at most
  double missing = 0;              // chance that a numeric value is NaN
  std::vector<EmbeddingId> ids{};  // of whose a row has some, and a target beside its label
  size_t ids_in_row = 0;           // at most

  size_t features() const { return numeric + hashed; }
};

inline Row RandomRow(const RandomRowShape& shape, size_t classes, std::mt19937& random) {
  std::normal_distribution<double> value;
  std::uniform_real_distribution<double> chance;
  Row row;
  row.label = static_cast<uint32_t>(random() % classes);
  for (size_t i = 0; i < shape.numeric; ++i) {
    const bool is_missing = chance(random) < shape.missing;
    row.numeric.push_back(is_missing ? std::numeric_limits<double>::quiet_NaN() : value(random));
  }
  for (size_t i = 0; i < shape.hashed_in_row; ++i) {
    row.index.push_back(static_cast<uint32_t>(shape.numeric + random() % shape.hashed));
  }
  std::sort(row.index.begin(), row.index.end());
  row.index.erase(std::unique(row.index.begin(), row.index.end()), row.index.end());
  for (size_t i = 0; i < row.index.size(); ++i) {
    row.value.push_back(static_cast<float>(value(random)));
  }
  if (shape.ids.empty()) return row;
  row.target = static_cast<float>(value(random));
  for (size_t i = random() % (shape.ids_in_row + 1); i > 0; --i) {
    row.ids.push_back(shape.ids[random() % shape.ids.size()]);
  }
  return row;
}

inline std::vector<Row> RandomRows(const RandomRowShape& shape, size_t classes, size_t count,
                                   std::mt19937& random) {
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(RandomRow(shape, classes, random));
  return rows;
}

inline std::vector<float> RandomFloats(size_t count, float deviation, std::mt19937& random) {
  std::normal_distribution<float> value(0.0f, deviation);
  std::vector<float> values(count);
  for (float& each : values) each = value(random);
  return values;
}

inline std::vector<const Row*> Pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

}  // namespace millrace
