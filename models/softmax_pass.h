// Softmax regression on one batch, for the models that are made of it. Internal to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

// What is computed, and on what. Parameter (feature f, class k) has key f * classes + k; feature
// `features` is the bias.
struct SoftmaxCall {
  RowsView rows;
  // Of all rows, one after the other: the hashed features' places among `features`, which stand for
  // Row::index. Null: they are Row::index.
  const uint32_t* places = nullptr;
  const Scaler* scaler = nullptr;
  const float* parameters = nullptr;  // (features + 1) * classes
  size_t features = 0;
  size_t classes = 0;                                 // at least 2
  const std::vector<float>* class_weights = nullptr;  // empty, or one for each class
  GradientSum* gradient = nullptr;                    // may be null; of the parameters' shape
  float* scores = nullptr;                            // may be null; rows x classes
};

BatchLoss ComputeSoftmax(const SoftmaxCall& call);

}  // namespace millrace
