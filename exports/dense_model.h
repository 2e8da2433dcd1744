// An exported model as matrices over the encoder's dense output: as other programs compute it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exports/exported_model.h"

namespace millrace {

// Of an input x, a float for each feature:
//
//   h_1 = max(0, x A_1 + a_1), ..., h_n = max(0, h_(n-1) A_n + a_n);  z = x W + b + h_n V
//   P(k) = softmax_k(z), or an estimate of mean + unit * z
//
// Matrices are row-major, a row for each input. A linear model has no h.
struct DenseModel {
  struct Layer {
    std::vector<float> weights;  // A
    std::vector<float> biases;   // a
  };
  size_t inputs = 0;   // features
  size_t outputs = 0;  // classes, or 1
  // An input beyond +-largest counts as +-largest; 0: there is no such limit.
  float largest = 0;
  std::vector<float> weights;  // W
  std::vector<float> bias;     // b; of classes, where the scores begin is added
  std::vector<Layer> hidden;
  std::vector<float> output_weights;  // V
};

// Why a model of this shape has no such form; empty: it has. One of ids has none: an embedding row
// for each value is no matrix of an input. Nor has one that would be too large to be useful.
std::string WhyNotDense(const ModelShape& shape);

// REQUIRES: WhyNotDense is empty, and what ModelScorer requires. (Of a wide model all rows of
// hashed features are made.)
DenseModel ToDense(const ExportedModel& model);

}  // namespace millrace
