#include "tasks/task_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/hash.h"
#include "models/deep_fm.h"
#include "models/external_model.h"
#include "models/factorization_machine.h"
#include "models/online_softmax.h"
#include "models/softmax_regression.h"
#include "models/wide_limits.h"
#include "models/wide_network.h"
#include "models/wide_softmax.h"
#include "processors/policy.h"
#include "tasks/class_weights.h"
#include "tasks/parameter_options.h"
#include "topics/error_loss.h"
#include "topics/most_workers.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"
#include "topics/row_batch.h"
#include "topics/row_codec.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr double kRateOfFactors = 0.05;
constexpr double kRateOfNetwork = 0.025;
constexpr uint32_t kRoundsOfGradients = 30;
constexpr uint32_t kFirstRowsOfNetwork = 8;

ConsistencyPolicy ToConsistencyPolicy(const Training::Consistency& consistency) {
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

OptimizerOptions ToOptimizerOptions(const Training& training) {
  const Training::Optimizer& optimizer = training.optimizer();
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
    case Training::Optimizer::FTRL:
      options.kind = OptimizerOptions::Kind::kFtrl;
      break;
  }
  options.learning_rate = optimizer.learning_rate();
  options.decay = optimizer.decay();
  options.momentum = optimizer.momentum();
  options.beta1 = optimizer.beta1();
  options.beta2 = optimizer.beta2();
  options.epsilon = optimizer.epsilon();
  options.ftrl_beta = optimizer.ftrl_beta();
  options.l1 = optimizer.l1();
  options.l2 = training.l2();
  return options;
}

EmbeddingTableOptions ToEmbeddingTableOptions(const Training::Embedding& embedding, size_t width) {
  EmbeddingTableOptions options;
  options.seed = embedding.seed();
  options.initial_limit.assign(width, static_cast<float>(embedding.initial_limit()));
  options.admit_after = embedding.admit_after();
  options.expire_after_ms = static_cast<int64_t>(embedding.expire_after_s() * 1000);
  return options;
}

// Each table of a trainer of one's own has a scale of its own.
void SetLimitsOfTables(const std::vector<ServedParameter>& parameters,
                       EmbeddingTableOptions& options) {
  for (const ServedParameter& parameter : parameters) {
    if (parameter.row_width == 0) continue;
    std::vector<float>& limit = options.limits_by_prefix.emplace_back(options.width());
    std::fill_n(limit.begin(), parameter.row_width, parameter.row_scale);
  }
}

// Whether a step's penalty leaves a weight most of its size: then what is missed can be caught up.
bool ShrinksGently(const Training& training) {
  return training.optimizer().kind() == Training::Optimizer::FTRL ||
         training.l2() * training.optimizer().learning_rate() <= 0.5;
}

UpdateKind ToUpdateKind(const Training& training) {
  switch (training.update().kind()) {
    case Training::Update::GRADIENT:
      return UpdateKind::kSums;
    case Training::Update::WEIGHT_CHANGE:
      return UpdateKind::kAverageChanges;
    case Training::Update::ONLINE:  // OptimizerOptions::Kind::kSum adds them up
      return UpdateKind::kSums;
  }
  return UpdateKind::kSums;
}

bool IsOnline(const Training& training) {
  return training.update().kind() == Training::Update::ONLINE;
}

bool IsNetwork(const Training& training) { return training.model() == Training::NETWORK; }

// Has factors, and needs ids to have them of.
bool HasFactors(const Training& training) {
  return training.model() == Training::FACTORIZATION_MACHINE ||
         training.model() == Training::DEEP_FM;
}

size_t FloatsOfFeature(size_t classes, const Training& training) {
  if (IsNetwork(training)) return std::max<size_t>(classes, 1) + HiddenLayers(training).front();
  return IsOnline(training) ? OnlineLearner::BlockSizeFor(classes) : classes;
}

// Whether missed steps do not keep a weight from being a row.
bool AllowsRows(const Training& training) {
  return IsOnline(training) ||
         (training.update().kind() == Training::Update::GRADIENT && ShrinksGently(training));
}

ScoreLoss LossOf(const FeatureSpec& spec, const Training& training) {
  return {.of_classes = !spec.regression(),
          .error = ToErrorLoss(training.loss()),
          .huber = static_cast<float>(training.huber_limit())};
}

std::unique_ptr<Model> MakeUnweighted(const RowShape& shape, const JobFeatures& features,
                                      const Training& training) {
  const ScoreLoss loss = LossOf(features.spec(), training);
  if (HasFactors(training)) {
    const Training::Embedding& embedding = training.embedding();
    const auto l2 = static_cast<float>(embedding.l2());
    if (training.model() == Training::FACTORIZATION_MACHINE) {
      return std::make_unique<FactorizationMachine>(
          FactorizationMachine::Shape{.features = shape.features, .factors = embedding.factors()},
          loss, l2);
    }
    return std::make_unique<DeepFm>(DeepFm::Shape{shape.features, shape.numeric, shape.ids,
                                                  embedding.factors(), HiddenLayers(training)},
                                    loss, l2);
  }
  if (features.spec().regression()) {
    return std::make_unique<FactorizationMachine>(
        FactorizationMachine::Shape{.features = shape.features, .has_ids = shape.ids > 0}, loss);
  }
  if (IsWide(features, training)) {
    return std::make_unique<WideSoftmax>(shape.numeric, shape.features, shape.classes);
  }
  return std::make_unique<SoftmaxRegression>(shape.features, shape.classes);
}

std::unique_ptr<Model> MakeNetwork(const RowShape& shape, const JobFeatures& features,
                                   const Training& training,
                                   const std::vector<float>& class_weights) {
  return std::make_unique<WideNetwork>(
      WideNetwork::Shape{.features = shape.features,
                         .numeric = shape.numeric,
                         .classes = shape.classes,
                         .wide = IsWide(features, training),
                         .has_ids = shape.ids > 0,
                         .hidden = HiddenLayers(training),
                         .initial_limit = static_cast<float>(training.embedding().initial_limit())},
      LossOf(features.spec(), training), class_weights);
}

bool HasCategoricalColumns(const FeatureSpec& spec) {
  return !spec.categorical().empty() || !spec.bins().empty() || !spec.times().empty();
}

// Of each of `columns` columns of text of an online learner on a sliding buffer, whose bucket has
// `floats` floats: of reviews 2^14 buckets are as good as 2^18 in one pass. All of them are in each
// answer, so with 800,000 floats a row costs two to three times what it does with 2^10 buckets, and
// with more of them in proportion. A power of two.
uint64_t TextBucketsOfBuffer(uint64_t columns, uint64_t floats) {
  constexpr uint64_t kMostFloats = 800'000;
  uint64_t buckets = uint64_t{1} << 18;
  while (buckets > 1 && buckets * columns * floats > kMostFloats) buckets /= 2;
  return buckets;
}

// What every message says of the job and of the layout of its shards; 0: it has no name.
uint64_t JobHash(const JobFeatures& features, const JobTraining& training) {
  return features.job().empty() ? 0 : Fnv1a64(LayoutName(features.job(), training.layout()));
}

// Its topics, as the broker calls them; of a job without a name, as we do.
std::string NameOf(Topic topic, const JobFeatures& features, const JobTraining& training) {
  const std::string name = TopicName(LayoutName(features.job(), training.layout()), topic);
  return features.job().empty() ? name.substr(name.rfind('.') + 1) : name;
}

}  // namespace

std::vector<size_t> HiddenLayers(const Training& training) {
  if (training.hidden().empty()) return {64, 32};
  return {training.hidden().begin(), training.hidden().end()};
}

void SetDefaultUpdate(Training& training) {
  if (training.update().has_kind()) return;
  const bool is_for_optimizer =
      training.has_optimizer() || training.l2() > 0 || training.compression().top_k() < 1 ||
      (training.schedule() == Training::BUFFER && training.buffer().minibatch_rows() > 0);
  const bool learns_rows = training.model() == Training::SOFTMAX && !is_for_optimizer;
  training.mutable_update()->set_kind(learns_rows ? Training::Update::ONLINE
                                                  : Training::Update::GRADIENT);
}

// As measured by benchmarks/learning on flights, clicks, images, ratings and pure noise: about the
// largest that stay within .005 of the class frequencies' log loss on noise.
void SetDefaultLearningRate(Training& training) {
  const Training::Optimizer& optimizer = training.optimizer();
  const bool is_adagrad = optimizer.kind() == Training::Optimizer::ADAGRAD ||
                          optimizer.kind() == Training::Optimizer::FTRL;  // of factors, networks
  const bool has_factors = HasFactors(training) || IsNetwork(training);
  if (optimizer.has_learning_rate() || !has_factors || !is_adagrad) return;
  training.mutable_optimizer()->set_learning_rate(IsNetwork(training) ? kRateOfNetwork
                                                                      : kRateOfFactors);
}

// As measured on reviews: fewer steps learn less of the last buffer, more learn it by heart.
void SetDefaultRounds(Training& training) {
  const bool is_gradient = training.update().kind() == Training::Update::GRADIENT;
  if (training.has_rounds_after_end() || training.schedule() != Training::BUFFER || !is_gradient) {
    return;
  }
  training.set_rounds_after_end(kRoundsOfGradients);
}

// As measured by benchmarks/learning: the first rows change an online learner most, so its batches
// begin with one of them, however many rows they are to have. A network needs many steps, of which
// a short stream gives few, and rounds of few rows are dear on a long one. (Of other models batches
// that grow are no better: the steps of features that rows seldom have become too short.)
void SetDefaultBatches(Training& training) {
  if (training.has_first_batch_rows() || training.schedule() != Training::ONE_PASS) return;
  const Training::Update::Kind update = training.update().kind();
  const bool is_given = training.has_batch_rows();
  if (update == Training::Update::ONLINE && is_given) training.set_first_batch_rows(1);
  const bool is_network =
      training.model() == Training::NETWORK && update == Training::Update::GRADIENT;
  if (is_network && !is_given) training.set_first_batch_rows(kFirstRowsOfNetwork);
}

void SetDefaults(Training& training) {
  SetDefaultUpdate(training);  // first: it asks what the user has said of the optimizer
  SetDefaultLearningRate(training);
  SetDefaultRounds(training);
  SetDefaultBatches(training);
}

void SetDefaultsAsBegun(const Training& published, Training& training) {
  if (!training.update().has_kind()) {
    training.mutable_update()->set_kind(published.update().kind());
  }
  if (!training.optimizer().has_learning_rate() && published.optimizer().has_learning_rate()) {
    training.mutable_optimizer()->set_learning_rate(published.optimizer().learning_rate());
  }
  if (!training.has_rounds_after_end()) {
    training.set_rounds_after_end(published.rounds_after_end());
  }
  if (!training.has_first_batch_rows()) {
    training.set_first_batch_rows(published.first_batch_rows());
  }
}

void SetDefaultBuckets(const Training* training, FeatureSpec& spec) {
  JobFeatures features;
  *features.mutable_spec() = spec;
  Training settings = training != nullptr ? *training : Training();
  SetDefaults(settings);
  const size_t floats = FloatsOfFeature(RowShapeFrom(features).classes, settings);
  const auto columns =
      static_cast<uint64_t>(spec.text_size()) + (HasCategoricalColumns(spec) ? 1 : 0);
  uint64_t many = BucketsOfWideModel(columns, floats);
  features.set_feature_count(static_cast<uint64_t>(spec.numeric_size()) + many * columns);
  // Models with factors, which are never wide, need ids.
  const bool may_have_factors = training == nullptr && !spec.ids().empty();
  // Members of an all-reduce exchange all weights, and refuse a wide model.
  const bool sends_all = settings.distribution_strategy() == Training::ALL_REDUCE;
  if (!IsWide(features, settings) || may_have_factors || sends_all) many = 0;
  uint64_t many_of_text = many;
  if (IsOnline(settings) && settings.schedule() == Training::BUFFER && spec.text_size() > 0) {
    many_of_text = TextBucketsOfBuffer(static_cast<uint64_t>(spec.text_size()), floats);
  }
  if (!spec.has_categorical_buckets()) {
    spec.set_categorical_buckets(std::max(static_cast<uint32_t>(many), spec.categorical_buckets()));
  }
  if (!spec.has_text_buckets()) {
    spec.set_text_buckets(std::max(static_cast<uint32_t>(many_of_text), spec.text_buckets()));
  }
}

std::string ManyWeightsText(const JobFeatures& features, const Training& training) {
  const uint64_t weights = MakeModel(features, training)->parameter_count();
  const FeatureSpec& spec = features.spec();
  if (weights <= WideAbove(Training())) return "";
  FeatureSpec few = spec;
  few.clear_categorical_buckets();
  few.clear_text_buckets();
  SetDefaultBuckets(&training, few);
  std::vector<std::string> flags;
  if (HasCategoricalColumns(spec) && spec.categorical_buckets() > few.categorical_buckets()) {
    flags.push_back("--categorical-buckets " + std::to_string(few.categorical_buckets()));
  }
  if (!spec.text().empty() && spec.text_buckets() > few.text_buckets()) {
    flags.push_back("--text-buckets " + std::to_string(few.text_buckets()));
  }
  if (flags.empty()) return "";
  return "each answer has all " + std::to_string(weights) +
         " weights of the model, since this schedule, update and model need all of them: rounds "
         "are slow. For faster ones start a new job, with CsvProducer " +
         absl::StrJoin(flags, " ");
}

std::string SmallBufferText(const JobFeatures& features, const Training& training) {
  const Dealing dealing = DealingOf(features);
  const uint32_t turn = std::max(dealing.rows_per_turn, dealing.most_rows_per_turn);
  const Training::Buffer& buffer = training.buffer();
  const bool is_small = training.schedule() == Training::BUFFER && buffer.max_rows() < turn;
  if (!is_small || buffer.skip_rows()) return "";
  return "--buffer-max " + std::to_string(buffer.max_rows()) + " is below the " +
         std::to_string(turn) +
         " rows of a turn (CsvProducer --rows-per-turn), which may come in one record: " +
         (IsOnline(training) ? "rows are learnt from for the second time while others still wait"
                             : "some of them are replaced before a gradient has used them") +
         ". Raise it to " + std::to_string(kMostBatchRows) + ", the most rows of a record, or more";
}

uint64_t WideAbove(const Training& training) {
  if (training.has_wide_above()) return training.wide_above();
  return IsOnline(training) ? kWideAboveOnline : kWideAbove;
}

bool IsWide(const JobFeatures& features, const Training& training) {
  const RowShape shape = RowShapeFrom(features);
  return !HasFactors(training) && !IsExternal(training) &&
         training.schedule() == Training::ONE_PASS &&
         (IsOnline(training) || IsNetwork(training) || !features.spec().regression()) &&
         AllowsRows(training) && shape.features > shape.numeric &&
         (shape.features + 1) * FloatsOfFeature(shape.classes, training) > WideAbove(training);
}

Status CheckModel(const JobFeatures& features, const Training& training) {
  MILLRACE_RETURN_IF_ERROR(CheckParameters(features, training));
  if (IsExternal(training)) return absl::OkStatus();
  const FeatureSpec& spec = features.spec();
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (!spec.regression() && (training.has_loss() || training.has_huber_limit())) {
    return wrong(
        "--loss and --huber-limit are for a regression (CsvProducer --regression), and this job "
        "has "
        "classes: leave them out");
  }
  if (spec.regression() && training.class_weight_size() > 0) {
    return wrong(
        "this job is a regression (CsvProducer --regression), which has no classes: leave out "
        "--class-weight");
  }
  if (HasFactors(training)) {
    if (spec.ids().empty()) {
      return wrong("the models fm and deepfm need id columns: give CsvProducer --ids A,B");
    }
    if (!spec.regression() && spec.classes_size() != 2) {
      return wrong(
          "the models fm and deepfm need two classes, or a number as the label (CsvProducer "
          "--regression); the job has " +
          std::to_string(spec.classes_size()) + " classes");
    }
    return ClassWeightsOf(spec, training).status();
  }
  if (!spec.regression() && spec.classes_size() < 2) {
    return wrong("a job tells two classes or more apart; this one has " +
                 std::to_string(spec.classes_size()));
  }
  if (!spec.ids().empty() && training.schedule() != Training::ONE_PASS) {
    return wrong(
        "this job has id columns (CsvProducer --ids), which need --schedule one-pass: give that "
        "instead of buffer");
  }
  if (!spec.ids().empty() && IsNetwork(training) && !AllowsRows(training)) {
    return wrong(
        "a step's L2 penalty takes more than half of a weight, which embedding rows (CsvProducer "
        "--ids) do not allow: make --l2 times --learning-rate 0.5 at most");
  }
  const bool is_linear = !IsNetwork(training);
  if (!spec.ids().empty() && is_linear && !spec.regression() && !IsOnline(training)) {
    return wrong(
        "this job has id columns (CsvProducer --ids) and classes; with these --model softmax needs "
        "--update online: leave out --update, --l2, --top-k and the optimizer's settings, or give "
        "--model network or, with two classes, --model fm");
  }
  return ClassWeightsOf(spec, training).status();
}

std::unique_ptr<Model> MakeModel(const JobFeatures& features, const Training& training) {
  MILLRACE_CHECK(CheckModel(features, training).ok());
  if (IsExternal(training)) {
    return std::make_unique<ExternalModel>(LayOutParameters(features)->back().end,
                                           WidestRow(TablesOf(features)));
  }
  const RowShape shape = RowShapeFrom(features);
  std::vector<float> class_weights = *ClassWeightsOf(features.spec(), training);
  if (IsOnline(training)) {
    return std::make_unique<OnlineSoftmax>(OnlineSoftmax::Shape{.numeric = shape.numeric,
                                                                .features = shape.features,
                                                                .classes = shape.classes,
                                                                .wide = IsWide(features, training),
                                                                .ids = shape.ids > 0},
                                           std::move(class_weights),
                                           LossOf(features.spec(), training));
  }
  std::unique_ptr<Model> model = IsNetwork(training)
                                     ? MakeNetwork(shape, features, training, class_weights)
                                     : MakeUnweighted(shape, features, training);
  if (BalancesClasses(training) && model->uses_targets()) {
    // (BatchTrainer replaces these weights. Nothing but that scores begin at no frequencies stays.)
    return model->WithClassWeights(std::vector<float>(model->score_count(), 1));
  }
  if (IsNetwork(training)) return model;  // the frequencies are weighted, too
  return class_weights.empty() ? std::move(model) : model->WithClassWeights(class_weights);
}

namespace {

// Within its group of servers a shard is numbered as that of a job.
void SetGroup(uint64_t job, const JobTraining& training, ShardId number, ServerOptions& options) {
  options.groups = GroupCount(training);
  options.group = GroupOfShard(training, number);
  options.shards = ShardsOfGroup(training);
  options.shard = ShardId(number % options.shards);
  options.job = HashOfGroup(job, options.group);
  for (int group = 0; group < training.group_size(); ++group) {
    const ServerGroup& each = training.group(group);
    const auto index = static_cast<uint32_t>(group);
    if (index == options.group) {
      for (const uint32_t worker : each.worker()) options.members.emplace_back(worker);
      if (index == 0) continue;
      options.neighbor = {{each.neighbor(), HashOfGroup(job, each.neighbor())},
                          each.sync_interval()};
    } else if (index > 0 && each.neighbor() == options.group) {
      options.sources.push_back({index, HashOfGroup(job, index)});
    }
  }
}

}  // namespace

ServerOptions MakeServerOptions(const JobFeatures& features, const JobTraining& training,
                                ShardId shard) {
  const RowShape shape = RowShapeFrom(features);
  const std::unique_ptr<Model> model = MakeModel(features, training.training());
  ServerOptions options;
  options.epoch = features.epoch();
  SetGroup(JobHash(features, training), training, shard, options);
  options.layout = training.layout();
  options.gradients_topic = NameOf(Topic::kGradients, features, training);
  options.dead_letter_reasons_only = training.dead_letter_reasons_only();
  options.range = RangeOfShard(options.shard, options.shards, model->parameter_count());
  options.penalised_end = model->penalised_end();
  options.linear_end = model->linear_end();
  options.random_init_ranges = model->random_init_ranges();
  options.seed = training.training().embedding().seed();
  options.workers = MostWorkers(training.training(), features.workers());
  options.first_workers = features.workers();
  options.classes = shape.classes;
  options.numeric_columns = shape.numeric;
  options.consistency = ToConsistencyPolicy(training.training().consistency());
  options.pipeline = PipelineOf(training.training());
  options.updates = ToUpdateKind(training.training());
  options.snapshot_every = training.training().snapshot_every();
  options.values = training.training().compression().values();
  options.optimizer = ToOptimizerOptions(training.training());
  // FTRL has the penalty in its own formula.
  const bool ftrl = training.training().optimizer().kind() == Training::Optimizer::FTRL;
  if (IsOnline(training.training())) options.optimizer = {.kind = OptimizerOptions::Kind::kSum};
  if (training.training().on_drift() == Training::FORGET && model->online() != nullptr) {
    options.forgets = model->online()->forgetting();
    options.forgets->race = options.consistency.sequential();
  }
  options.parameters = ServedParametersOf(features, training.training(), options.optimizer);
  options.l2 = ftrl ? 0 : training.training().l2();
  if (model->row_width() > 0) {
    options.embeddings =
        ToEmbeddingTableOptions(training.training().embedding(), model->row_width());
    options.row_linear_end = model->row_linear_end();
    const bool are_weights =
        IsNetwork(training.training()) || IsWide(features, training.training());
    if (are_weights) options.row_l2 = options.l2;
    // The weights of a linear model begin at zero.
    std::fill_n(options.embeddings->initial_limit.begin(), options.row_linear_end, 0.0f);
    SetLimitsOfTables(options.parameters, *options.embeddings);
  }
  return options;
}

WorkerOptions MakeWorkerOptions(const JobFeatures& features, const JobTraining& training,
                                WorkerId worker) {
  WorkerOptions options;
  options.group = GroupOfWorker(training, worker);
  options.first_of_group = FirstWorkerOf(training, options.group);
  options.job = HashOfGroup(JobHash(features, training), options.group);
  options.epoch = features.epoch();
  options.worker = worker;
  options.workers = MostWorkers(training.training(), features.workers());
  options.first_workers = features.workers();
  options.dealing = DealingOf(features);
  // Leased rows are everybody's, wherever they are.
  const bool leases = training.training().sharding() == Training::DYNAMIC;
  if (!leases) options.dealt_workers = features.dealt_workers();
  options.shards = ShardsOfGroup(training);
  options.gradients_topic = NameOf(Topic::kGradients, features, training);
  options.weights_topic = NameOf(Topic::kWeights, features, training);
  options.classes = RowShapeFrom(features).classes;
  options.balances_classes = BalancesClasses(training.training());
  options.numeric_columns = RowShapeFrom(features).numeric;
  options.tables = TablesOf(features);
  options.training = training.training();
  options.pipeline = PipelineOf(training.training());
  options.dead_letter_reasons_only = training.dead_letter_reasons_only();
  return options;
}

}  // namespace millrace
