// How a row becomes the floats that model.onnx takes.
#pragma once

#include "exports/exported_model.h"
#include "messages/exported_model.pb.h"

namespace millrace {

// Of the description's features, and of the moments of its numeric columns. REQUIRES:
// CheckDescription, and moments of these columns.
EncoderDescription DescribeEncoder(const ModelDescription& description, const Moments& moments);

}  // namespace millrace
