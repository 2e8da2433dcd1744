// How an exported model describes the model that a job trains.
#pragma once

#include <cstddef>

#include "messages/exported_model.pb.h"
#include "messages/records.pb.h"
#include "messages/training.pb.h"
#include "models/model.h"
#include "models/moments.h"

namespace millrace {

// What a job's settings say of its model, without what follows from the model (DescribeRows).
ModelShape ShapeOfModel(const JobFeatures& features, const Training& training);

// Sets what embedding rows have that predict. `model`: MakeModel of the job.
void DescribeRows(const Model& model, ModelShape& shape);

// What an exported model knows of its numeric columns, `columns` of them. (A message may leave
// columns out.)
Moments MomentsOfColumns(const MomentsMessage& message, size_t columns);

// Sets what scores begin at: the mean of the targets, or the frequencies of the classes. REQUIRES:
// CheckModel; the description has the shape; `model` as above.
void DescribeMoments(const Moments& moments, const JobFeatures& features, const Training& training,
                     const Model& model, ModelDescription& description);

// Sets the figures, and how many rows have been learnt from. `first`: the state of shard 0, which
// counts them for the job.
void DescribeFigures(const ShardState& first, ModelDescription& description);

}  // namespace millrace
