// A model that was taken out of a job: all that a prediction needs.
#pragma once

#include <vector>

#include "base/types.h"
#include "messages/exported_model.pb.h"
#include "models/moments.h"

namespace millrace {

struct ExportedModel {
  ModelDescription description;
  std::vector<float> weights;    // dense parameters of the shape's model (exports/model_shape.h)
  std::vector<EmbeddingId> ids;  // ascending, distinct
  std::vector<float> rows;       // ids.size() x description.shape().row_width(), row by row
  Moments moments;               // of the numeric columns only
};

}  // namespace millrace
