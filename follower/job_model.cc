#include "follower/job_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exports/model_shape.h"
#include "models/online_softmax.h"
#include "processors/worker_options.h"
#include "tasks/model_description.h"
#include "tasks/parameter_options.h"
#include "tasks/task_options.h"
#include "topics/server_groups.h"

namespace millrace {
namespace {

bool AreNumbers(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

WeightsShape ShapeOfAnswers(const JobFeatures& features, const JobTraining& training,
                            const Model& model) {
  return WeightsShapeFrom(MakeWorkerOptions(features, training, FirstWorkerOf(training, 0)), model);
}

JobModel::JobModel(const JobFeatures& features, const JobTraining& training,
                   std::unique_ptr<Model> model)
    : features_(features), training_(training), model_(std::move(model)) {
  description_.set_job(features.job());
  description_.set_epoch(features.epoch());
  *description_.mutable_features() = features.spec();
  *description_.mutable_training() = training.training();
  *description_.mutable_shape() = ShapeOfModel(features, training.training());
  DescribeRows(*model_, *description_.mutable_shape());
}

StatusOr<JobModel> JobModel::Create(const JobFeatures& features, const JobTraining& training) {
  MILLRACE_RETURN_IF_ERROR(CheckHasModel(features));
  MILLRACE_RETURN_IF_ERROR(CheckModel(features, training.training()));
  MILLRACE_RETURN_IF_ERROR(CheckShape(ShapeOfModel(features, training.training())));
  return JobModel(features, training, MakeModel(features, training.training()));
}

StatusOr<ExportedModel> JobModel::Export(const std::vector<float>& parameters,
                                         const MomentsMessage& moments) const {
  ExportedModel exported;
  const OnlineSoftmax* const online = model_->online();
  exported.weights = online != nullptr ? online->MixedParameters(parameters) : parameters;
  exported.moments = MomentsOfColumns(moments, description_.shape().numeric());
  const bool are_numbers = AreNumbers(exported.weights) && exported.moments.IsValid() &&
                           exported.moments.target.IsValid();
  if (!are_numbers) return NoNumbers();
  exported.description = description_;
  DescribeMoments(exported.moments, features_, training_.training(), *model_, exported.description);
  return exported;
}

Status JobModel::NoNumbers() const {
  return absl::DataLossError("the newest weights of the job " + features_.job() +
                             " are infinite or no numbers: train it with smaller steps "
                             "(--learning-rate)");
}

}  // namespace millrace
