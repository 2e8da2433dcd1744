#include "python/src/online_session.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/distinct_ids.h"
#include "exports/model_writer.h"
#include "features/spec_checks.h"
#include "models/class_balance.h"
#include "models/running_scaler.h"
#include "models/wide_limits.h"
#include "python/src/learner_state.h"
#include "python/src/model_handle.h"
#include "topics/error_loss.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

size_t ClassesOf(const FeatureSpec& spec) {
  return spec.regression() ? 0 : static_cast<size_t>(spec.classes_size());
}

bool IsWideModel(uint64_t numeric, uint64_t features, size_t classes) {
  return features > numeric &&
         (features + 1) * OnlineLearner::BlockSizeFor(classes) > kWideAboveOnline;
}

// As SetDefaultBuckets of tasks/task_options.h. (To link tasks/ would mean to build half of the
// programs.)
void ChooseBuckets(FeatureSpec& spec) {
  const size_t classes = ClassesOf(spec);
  const auto columns = static_cast<uint64_t>(spec.text_size()) + (HasCategories(spec) ? 1 : 0);
  const uint64_t many = BucketsOfWideModel(columns, OnlineLearner::BlockSizeFor(classes));
  const auto numeric = static_cast<uint64_t>(spec.numeric_size());
  // A producer that sends ids does not know whether their model will have factors.
  const bool is_wide = IsWideModel(numeric, numeric + many * columns, classes);
  const uint32_t least = is_wide && spec.ids().empty() ? static_cast<uint32_t>(many) : 0;
  if (!spec.has_categorical_buckets()) {
    spec.set_categorical_buckets(std::max(least, spec.categorical_buckets()));
  }
  if (!spec.has_text_buckets()) spec.set_text_buckets(std::max(least, spec.text_buckets()));
}

std::unique_ptr<OnlineSoftmax> MakeOnline(const OnlineSession::Options& options,
                                          const FeatureEncoder& encoder) {
  const size_t classes = ClassesOf(options.spec);
  const OnlineSoftmax::Shape shape{
      .numeric = encoder.numeric_count(),
      .features = encoder.feature_count(),
      .classes = classes,
      .wide = IsWideModel(encoder.numeric_count(), encoder.feature_count(), classes),
      .ids = options.spec.ids_size() > 0};
  const ScoreLoss loss{.of_classes = classes > 0,
                       .error = ToErrorLoss(options.training.loss()),
                       .huber = static_cast<float>(options.training.huber_limit())};
  return std::make_unique<OnlineSoftmax>(shape, options.class_weights, loss);
}

// (A zero may have a sign.)
bool AreZeroBits(std::span<const float> values) {
  return std::ranges::all_of(values,
                             [](float value) { return std::bit_cast<uint32_t>(value) == 0; });
}

Training OnlineTraining(Training training) {
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  training.set_batch_rows(1);
  return training;
}

Status CheckClasses(const OnlineSession::Options& options) {
  const FeatureSpec& spec = options.spec;
  if (!spec.regression() && spec.classes_size() < 2) {
    return absl::InvalidArgumentError("two classes or more are needed");
  }
  const bool fit = options.class_weights.empty() ||
                   options.class_weights.size() == static_cast<size_t>(spec.classes_size());
  return fit ? absl::OkStatus()
             : absl::InvalidArgumentError("there is not one class weight for each class");
}

}  // namespace

StatusOr<std::unique_ptr<OnlineSession>> OnlineSession::Create(Options options) {
  MILLRACE_RETURN_IF_ERROR(CheckClasses(options));
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(options.spec));
  MILLRACE_RETURN_IF_ERROR(CheckCrossesOfNumbers(options.spec));
  ChooseBuckets(options.spec);
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(options.spec));
  return std::unique_ptr<OnlineSession>(new OnlineSession(options, std::move(encoder)));
}

OnlineSession::OnlineSession(const Options& options, FeatureEncoder encoder)
    : spec_(options.spec),
      training_(OnlineTraining(options.training)),
      classes_(ClassesOf(spec_)),
      class_weights_(options.class_weights),
      balanced_(options.balanced && classes_ > 0),
      model_(MakeOnline(options, encoder)),
      encoder_(std::move(encoder)),
      parameters_(model_->parameter_count()),
      moments_(encoder_.numeric_count()),
      change_(model_->parameter_count(), model_->block_size()),
      scores_(model_->score_count()) {}

std::vector<std::string> OnlineSession::columns() const {
  const std::vector<std::string>& required = encoder_.required_columns();
  return {required.begin() + 1, required.end()};
}

Status OnlineSession::Learn(const CellTable& cells, size_t first_row) {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows(cells.rows());
  std::vector<std::string_view> fields;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.Read(i, fields);
    MILLRACE_RETURN_IF_ERROR(InRow(first_row + i, encoder_.Encode(fields, &rows[i])));
  }
  for (const Row& row : rows) LearnRow(row);
  return absl::OkStatus();
}

void OnlineSession::Gather(RowsView rows) {
  ids_.clear();
  for (const Row* row : rows) model_->AppendIds(*row, ids_);
  SortDistinct(ids_);
  const size_t width = model_->row_width();
  values_.assign(ids_.size() * width, 0.0f);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const auto found = embedding_rows_.find(ids_[i]);
    if (found != embedding_rows_.end()) {
      std::ranges::copy(found->second, values_.begin() + static_cast<ptrdiff_t>(i * width));
    }
  }
}

void OnlineSession::LearnRow(const Row& row) {
  const Row* const one = &row;
  const RowsView rows(&one, 1);
  Gather(rows);
  gradient_.assign(values_.size(), 0.0f);
  change_.Clear();
  RunningScaler scaler(moments_, training_.scaling() == Training::RUNNING);
  std::unique_ptr<ClassBalance> balance;
  if (balanced_) balance = std::make_unique<ClassBalance>(moments_, classes_);
  const EmbeddingBatch embeddings{ids_, values_, gradient_};
  model_->Learn({.rows = rows, .trained_end = 1, .balance = balance.get()}, scaler, parameters_,
                embeddings, change_, scores_);
  if (classes_ == 0 && !moments_.target.known()) {
    sums_.AddUnpredicted();
  } else {
    sums_.AddRow(row, scores_, classes_);
  }
  ++rows_;
  Moments added = scaler.added();
  if (balance != nullptr) added.class_rows = balance->added();
  AddUp(embeddings, added);
}

// As a server does. A change that is not finite is left out, as one whose sums overflow.
void OnlineSession::AddUp(const EmbeddingBatch& embeddings, const Moments& moments) {
  moments_.Merge(moments);
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const size_t block = change_.block_size();
  const std::span<const uint32_t> blocks = change_.SortedBlocks();
  bool finite = std::ranges::all_of(embeddings.gradient, is_finite);
  for (const uint32_t at : blocks) {
    finite = finite && std::ranges::all_of(change_.values().subspan(at * block, block), is_finite);
  }
  if (!finite) return;
  for (const uint32_t at : blocks) {
    for (size_t i = at * block; i < (at + 1) * block; ++i) parameters_[i] += change_.values()[i];
  }
  const size_t width = model_->row_width();
  for (size_t i = 0; i < embeddings.ids.size(); ++i) {
    std::vector<float>& row = embedding_rows_[embeddings.ids[i]];
    row.resize(width);
    for (size_t j = 0; j < width; ++j) row[j] += embeddings.gradient[i * width + j];
  }
}

Status OnlineSession::Score(const CellTable& cells, size_t first_row, std::vector<float>& scores) {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows(cells.rows());
  std::vector<const Row*> views(rows.size());
  std::vector<std::string_view> fields;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.Read(i, fields);
    MILLRACE_RETURN_IF_ERROR(InRow(first_row + i, encoder_.EncodeFeatures(fields, &rows[i])));
    views[i] = &rows[i];
  }
  Gather(views);
  const bool scales = training_.scaling() == Training::RUNNING;
  Scaler scaler = scales ? Scaler(moments_) : Scaler::Identity(moments_.columns());
  scaler.set_target(moments_.target);
  const size_t before = scores.size();
  scores.resize(before + rows.size() * score_count());
  model_->Compute(views, scaler, parameters_, {ids_, values_, {}}, nullptr,
                  std::span(scores).subspan(before));
  return absl::OkStatus();
}

EvaluationFigures OnlineSession::figures() {
  const std::lock_guard lock(mutex_);
  return ComputeFigures(sums_, classes_);
}

uint64_t OnlineSession::rows() {
  const std::lock_guard lock(mutex_);
  return rows_;
}

StatusOr<std::string> OnlineSession::ToBytes() {
  const std::lock_guard lock(mutex_);
  LearnerState state;
  *state.mutable_features() = spec_;
  *state.mutable_training() = training_;
  state.mutable_class_weight()->Assign(class_weights_.begin(), class_weights_.end());
  state.set_balanced(balanced_);
  state.set_rows(rows_);
  const size_t block = model_->block_size();
  for (size_t at = 0; at < parameters_.size() / block; ++at) {
    const std::span<const float> values = std::span(parameters_).subspan(at * block, block);
    if (AreZeroBits(values)) continue;
    state.add_block(static_cast<uint32_t>(at));
    state.mutable_parameter()->Add(values.begin(), values.end());
  }
  for (const EmbeddingId id : SortedIds()) {
    const std::vector<float>& row = embedding_rows_.at(id);
    state.add_id(id);
    state.mutable_row()->Add(row.begin(), row.end());
  }
  ToProto(moments_, *state.mutable_moments());
  ToProto(sums_, *state.mutable_progressive());
  return EncodeLearner(state);
}

StatusOr<std::unique_ptr<OnlineSession>> OnlineSession::FromBytes(std::string_view bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const LearnerState state, DecodeLearner(bytes));
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<OnlineSession> session,
      Create({.spec = state.features(),
              .training = state.training(),
              .class_weights = {state.class_weight().begin(), state.class_weight().end()},
              .balanced = state.balanced()}));
  const LearnerShape shape = {.numeric_columns = session->encoder_.numeric_count(),
                              .classes = session->classes_,
                              .parameters = session->parameters_.size(),
                              .block = session->model_->block_size(),
                              .row_width = session->model_->row_width()};
  MILLRACE_RETURN_IF_ERROR(CheckLearner(state, shape));
  session->Load(state);
  return session;
}

void OnlineSession::Load(const LearnerState& state) {
  rows_ = state.rows();
  const auto block = static_cast<ptrdiff_t>(model_->block_size());
  for (int i = 0; i < state.block_size(); ++i) {
    std::copy_n(state.parameter().begin() + i * block, block,
                parameters_.begin() + ptrdiff_t{state.block(i)} * block);
  }
  const auto width = static_cast<ptrdiff_t>(model_->row_width());
  for (int i = 0; i < state.id_size(); ++i) {
    const auto begin = state.row().begin() + i * width;
    embedding_rows_[state.id(i)].assign(begin, begin + width);
  }
  moments_ = FromProto(state.moments());
  sums_ = FromProto(state.progressive());
}

std::vector<EmbeddingId> OnlineSession::SortedIds() const {
  std::vector<EmbeddingId> ids;
  for (const auto& [id, row] : embedding_rows_) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

ModelDescription OnlineSession::Describe(const std::string& name) const {
  const OnlineSoftmax::Shape& of_model = model_->shape();
  ModelDescription description;
  description.set_job(name);
  description.set_created_ms(NowMs());
  description.set_clock(rows_);
  description.set_rows(rows_);
  *description.mutable_features() = spec_;
  *description.mutable_training() = training_;
  ModelShape& shape = *description.mutable_shape();
  shape.set_kind(ModelShape::LINEAR);
  shape.set_mixed(true);
  shape.set_numeric(static_cast<uint32_t>(of_model.numeric));
  shape.set_features(static_cast<uint32_t>(of_model.features));
  shape.set_classes(static_cast<uint32_t>(classes_));
  shape.set_ids(static_cast<uint32_t>(spec_.ids_size()));
  shape.set_wide(of_model.wide);
  shape.set_row_seed(training_.embedding().seed());
  shape.set_row_limit(static_cast<float>(training_.embedding().initial_limit()));
  shape.set_scaled(training_.scaling() == Training::RUNNING);
  if (model_->row_width() > 0) {
    shape.set_row_width(static_cast<uint32_t>(model_->score_count()));
    shape.set_row_zeros(shape.row_width());
  }
  if (classes_ == 0) {
    ModelDescription::Target& target = *description.mutable_target();
    target.set_count(moments_.target.count);
    target.set_mean(moments_.target.mean);
    target.set_m2(moments_.target.m2);
    target.set_unit(1);
    if (moments_.target.keeps_to_range()) {
      target.set_least(moments_.target.least);
      target.set_most(moments_.target.most);
    }
  }
  return description;
}

Status OnlineSession::Save(const std::string& folder, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::vector<float> weights = model_->MixedParameters(parameters_);
  ModelToWrite write{.description = Describe(name), .weights = weights, .moments = moments_};
  const std::vector<EmbeddingId> ids = SortedIds();
  if (model_->row_width() > 0) {
    write.visit_rows = [&](const ModelToWrite::TakeRow& take) {
      for (const EmbeddingId id : ids) {
        MILLRACE_RETURN_IF_ERROR(take(id, model_->MixBlocks(parameters_, embedding_rows_.at(id))));
      }
      return absl::OkStatus();
    };
  }
  return WriteModel(folder, write);
}

}  // namespace millrace
