// An exported model as an ONNX graph, which onnxruntime and other programs predict by.
#pragma once

#include <string>

#include "exports/dense_model.h"
#include "messages/exported_model.pb.h"

namespace millrace {

// The bytes of model.onnx; a pure function of its arguments. Input: "input", float[N, features],
// the encoder's dense output (EncoderDescription). Outputs, named as sklearn-onnx names them: of
// classes "label", string[N], the likeliest class's name, and "probabilities", float[N, classes];
// of a regression "variable", float[N, 1]. REQUIRES: `dense` is ToDense of a model of this
// description.
std::string ToOnnx(const ModelDescription& description, const DenseModel& dense);

}  // namespace millrace
