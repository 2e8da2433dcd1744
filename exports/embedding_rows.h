// The embedding rows of an exported model, by id.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "exports/exported_model.h"

namespace millrace {

// One after the other, shape.row_width floats each: as of a new row where the model has none.
// REQUIRES: `ids` ascend.
std::vector<float> EmbeddingRowsOf(const ExportedModel& model, std::span<const EmbeddingId> ids);

}  // namespace millrace
