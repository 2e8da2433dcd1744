// What a job trains, as an exported model.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "exports/exported_model.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "topics/weights_codec.h"

namespace millrace {

// What the answers of this job's shards are checked by. `model`: MakeModel of the job.
WeightsShape ShapeOfAnswers(const JobFeatures& features, const JobTraining& training,
                            const Model& model);

// Immutable.
class JobModel {
 public:
  // InvalidArgument: there is no such model.
  static StatusOr<JobModel> Create(const JobFeatures& features, const JobTraining& training);

  const Model& model() const { return *model_; }
  const JobFeatures& features() const { return features_; }
  const JobTraining& training() const { return training_; }

  // The model of these dense parameters, by which the job predicts, and of these moments of shard
  // 0; of a model with embedding rows it has none. DataLoss: they are no numbers.
  StatusOr<ExportedModel> Export(const std::vector<float>& parameters,
                                 const MomentsMessage& moments) const;
  // The error of what has parts that are infinite or no numbers.
  Status NoNumbers() const;

 private:
  JobModel(const JobFeatures& features, const JobTraining& training, std::unique_ptr<Model> model);

  JobFeatures features_;
  JobTraining training_;
  std::unique_ptr<Model> model_;
  ModelDescription description_;  // without what changes
};

}  // namespace millrace
