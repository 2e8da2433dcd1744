// Which model a shape names, and whether a description is one of a model.
#pragma once

#include <memory>

#include "base/status.h"
#include "messages/exported_model.pb.h"
#include "models/model.h"

namespace millrace {

// Whether there is a model of these sizes: before anything is made of it. InvalidArgument with what
// is wrong. (row_width and row_zeros are not looked at: they follow from the model.)
Status CheckShape(const ModelShape& shape);

// The model whose Compute gives the scores. REQUIRES: CheckShape.
// `description`: of whose shape, classes and frequencies it is.
std::unique_ptr<Model> MakePredictor(const ModelDescription& description);

// Whether features, shape, target and frequencies are those of one model, and of numbers.
// InvalidArgument with what is wrong.
Status CheckDescription(const ModelDescription& description);

// Of a regression: what its estimates are relative to, and kept to.
TargetMoments TargetOf(const ModelDescription& description);

// How many floats a row of the array of weights has: of a linear model those of a feature. 0: the
// array has one dimension.
size_t WeightColumns(const ModelDescription& description);

}  // namespace millrace
