#include "runtime/job_options.h"

#include <vector>

#include "consistency/policy.h"
#include "models/softmax_regression.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

ConsistencyPolicy PolicyOf(const Training::Consistency& consistency) {
  switch (consistency.model()) {
    case Training::Consistency::SEQUENTIAL:
      return ConsistencyPolicy::Sequential();
    case Training::Consistency::EVENTUAL:
      return ConsistencyPolicy::Eventual();
    case Training::Consistency::BOUNDED:
      return ConsistencyPolicy::Bounded(consistency.max_delay());
  }
  return ConsistencyPolicy::Sequential();
}

OptimizerOptions OptimizerOf(const Training::Optimizer& optimizer) {
  OptimizerOptions options;
  switch (optimizer.kind()) {
    case Training::Optimizer::SGD:
      options.kind = OptimizerOptions::Kind::kSgd;
      break;
    case Training::Optimizer::MOMENTUM:
      options.kind = OptimizerOptions::Kind::kMomentum;
      break;
    case Training::Optimizer::ADAGRAD:
      options.kind = OptimizerOptions::Kind::kAdaGrad;
      break;
    case Training::Optimizer::ADAM:
      options.kind = OptimizerOptions::Kind::kAdam;
      break;
  }
  options.learning_rate = optimizer.learning_rate();
  options.decay = optimizer.decay();
  options.momentum = optimizer.momentum();
  options.beta1 = optimizer.beta1();
  options.beta2 = optimizer.beta2();
  options.epsilon = optimizer.epsilon();
  return options;
}

}  // namespace

KafkaOptions KafkaOptionsOf(const JobConfig& config) {
  KafkaOptions options;
  options.brokers = config.brokers();
  options.broker_timeout_s = config.broker_timeout_s();
  for (const KafkaSetting& setting : config.kafka()) {
    options.settings.emplace_back(setting.key(), setting.value());
  }
  return options;
}

RowShape ShapeOf(const JobFeatures& features) {
  RowShape shape;
  shape.numeric = static_cast<size_t>(features.spec().numeric_size());
  shape.features = features.feature_count();
  shape.classes = static_cast<size_t>(features.spec().classes_size());
  return shape;
}

std::unique_ptr<Model> MakeModel(const JobFeatures& features, const Training& training) {
  const RowShape shape = ShapeOf(features);
  std::vector<float> class_weights(training.class_weight().begin(), training.class_weight().end());
  return std::make_unique<SoftmaxRegression>(shape.features, shape.classes,
                                             std::move(class_weights));
}

ServerOptions ServerOptionsOf(const JobFeatures& features, const JobTraining& training,
                              ShardId shard) {
  const RowShape shape = ShapeOf(features);
  const std::unique_ptr<Model> model = MakeModel(features, training.training());
  ServerOptions options;
  options.epoch = features.epoch();
  options.shard = shard;
  options.shards = training.shards();
  options.range = RangeOfShard(shard, training.shards(), model->parameter_count());
  options.penalised_end = model->penalised_end();
  options.workers = features.workers();
  options.classes = shape.classes;
  options.numeric_columns = shape.numeric;
  options.consistency = PolicyOf(training.training().consistency());
  options.average_changes = training.training().update().kind() == Training::Update::WEIGHT_CHANGE;
  options.optimizer = OptimizerOf(training.training().optimizer());
  options.l2 = training.training().l2();
  return options;
}

WorkerOptions WorkerOptionsOf(const JobFeatures& features, const JobTraining& training,
                              WorkerId worker) {
  WorkerOptions options;
  options.epoch = features.epoch();
  options.worker = worker;
  options.workers = features.workers();
  options.shards = training.shards();
  options.classes = ShapeOf(features).classes;
  options.training = training.training();
  return options;
}

}  // namespace millrace
