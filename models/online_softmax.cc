#include "models/online_softmax.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "models/batch_damping.h"
#include "models/feature_numbers.h"
#include "models/online_classifier.h"
#include "models/online_estimator.h"
#include "models/portable_math.h"

namespace millrace {
namespace {

using Term = OnlineLearner::Term;

void AddLoss(const BatchLoss& of_row, BatchLoss& loss) {
  loss.loss_sum += of_row.loss_sum;
  loss.weight_sum += of_row.weight_sum;
}

// NewtonRacer's ridge. Of classes: as much curvature as four rows with x = 1 and p = 1/2 have,
// since a class's weights are seldom large. Of a number a hundredth of a row's.
constexpr float kRidgeOfClasses = 1;
constexpr float kRidgeOfNumbers = 0.01f;

size_t RoundUpTo(size_t count, size_t to) { return (count + to - 1) / to * to; }

}  // namespace

// The blocks that a batch needs, copied to working blocks of OnlineLearner: those of the numeric
// columns, then of the dense hashed features that its rows name, then of the embedding rows, then
// the bias; and the race.
class OnlineSoftmax::Copy {
 public:
  Copy(const OnlineSoftmax& model, RowsView rows, std::span<const float> parameters,
       const EmbeddingBatch& embeddings)
      : model_(model),
        working_block_(OnlineLearner::WorkingBlockSizeFor(model.shape_.classes)),
        dense_(model.shape_.wide ? FeatureNumbers{} : NumberFeatures(rows, model.shape_.numeric)),
        rows_(NumberRows(rows, {.features = model.shape_.wide, .ids = model.shape_.ids},
                         embeddings.ids, first_row())) {
    const float* const dense = parameters.data();
    values_.resize((bias() + 1) * working_block_);
    float* to = values_.data();
    for (size_t i = 0; i < model.shape_.numeric; ++i) Append(dense + i * model.block_, to);
    for (const size_t feature : dense_.from) Append(dense + feature * model.block_, to);
    for (const size_t at : rows_.from) Append(embeddings.values.data() + at * model.block_, to);
    Append(dense + model.BiasKey(), to);
    first_ = values_;
    race_.assign(dense + model.RaceKey(), dense + model.NewtonKey());
  }

  RaceView race() { return RaceView::Of(race_, model_.shape_.classes); }
  const std::vector<float>& race_floats() const { return race_; }
  // All working blocks, one after the other.
  const std::vector<float>& values() const { return values_; }
  // By how much they have changed.
  std::vector<float> Change() const {
    std::vector<float> change(values_.size());
    for (size_t i = 0; i < change.size(); ++i) change[i] = values_[i] - first_[i];
    return change;
  }
  // The features whose blocks follow those of the numeric columns.
  const std::vector<size_t>& features() const { return dense_.from; }
  // Where the rows stand in the embedding batch whose blocks follow.
  const std::vector<size_t>& rows() const { return rows_.from; }

  // The row's features that are not 0. To be called for each row, in order.
  std::span<const Term> NextRow(const Row& row, std::span<const float> numeric) {
    MILLRACE_CHECK(row.numeric.size() == model_.shape_.numeric);
    MILLRACE_CHECK(row.index.size() == row.value.size());
    terms_.clear();
    for (size_t i = 0; i < numeric.size(); ++i) AddTerm(i, numeric[i]);
    Numbers& hashed = model_.shape_.wide ? rows_ : dense_;
    for (const float value : row.value) AddTerm(NextOf(hashed), value);
    for (size_t i = 0; i < row.ids.size() && model_.shape_.ids; ++i) AddTerm(NextOf(rows_), 1.0f);
    AddTerm(bias(), 1.0f);
    return terms_;
  }

 private:
  size_t first_row() const { return model_.shape_.numeric + dense_.from.size(); }
  size_t bias() const { return first_row() + rows_.from.size(); }

  // Copies a block of the parameters to `to`, and moves that on.
  void Append(const float* from, float*& to) const {
    for (size_t c = 0; c < model_.columns_; ++c) {
      std::copy_n(from + c * OnlineRace::kValues, OnlineRace::kValues, to);
      to += OnlineLearner::kLanes;
    }
  }

  void AddTerm(size_t block, float x) {
    if (x == 0) return;
    x = std::clamp(x, -OnlineRace::kLargestFeature, OnlineRace::kLargestFeature);
    terms_.push_back({values_.data() + block * working_block_, x});
  }

  // The next number of those that the rows name.
  struct Numbers : FeatureNumbers {
    explicit Numbers(FeatureNumbers numbers) : FeatureNumbers(std::move(numbers)) {}
    size_t next = 0;
  };
  static size_t NextOf(Numbers& numbers) { return numbers.places[numbers.next++]; }

  const OnlineSoftmax& model_;
  const size_t working_block_;
  Numbers dense_;
  Numbers rows_;
  std::vector<float> values_;
  std::vector<float> first_;  // values_ before the first row
  std::vector<float> race_;
  std::vector<Term> terms_;
};

OnlineSoftmax::OnlineSoftmax(const Shape& shape, std::vector<float> class_weights,
                             const ScoreLoss& loss)
    : shape_(shape),
      class_weights_(std::move(class_weights)),
      loss_(loss),
      columns_(OnlineLearner::ColumnsFor(shape.classes)),
      block_(OnlineLearner::BlockSizeFor(shape.classes)) {
  MILLRACE_CHECK(shape.classes != 1 && shape.numeric <= shape.features);
}

std::unique_ptr<OnlineLearner> OnlineSoftmax::MakeLearner() const {
  if (shape_.classes == 0) return std::make_unique<OnlineEstimator>(loss_);
  return std::make_unique<OnlineClassifier>(shape_.classes, class_weights_);
}

std::optional<NewtonRacer> OnlineSoftmax::MakeNewton(std::span<const float> parameters) const {
  const size_t sums = NewtonRacer::SumsFor(shape_.numeric, columns_);
  if (sums == 0) return std::nullopt;
  const float ridge = shape_.classes == 0 ? kRidgeOfNumbers : kRidgeOfClasses;
  return NewtonRacer(shape_.numeric, columns_, ridge, parameters.subspan(NewtonKey(), sums));
}

size_t OnlineSoftmax::NewtonKey() const {
  return RaceKey() + RoundUpTo(RaceView::FloatsFor(shape_.classes), block_);
}

size_t OnlineSoftmax::parameter_count() const {
  return NewtonKey() + RoundUpTo(NewtonRacer::SumsFor(shape_.numeric, columns_), block_);
}

void OnlineSoftmax::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  if (shape_.wide) ids.insert(ids.end(), row.index.begin(), row.index.end());
  if (shape_.ids) ids.insert(ids.end(), row.ids.begin(), row.ids.end());
}

BatchLoss OnlineSoftmax::Compute(RowsView rows, const Scaler& scaler,
                                 std::span<const float> parameters,
                                 const EmbeddingBatch& embeddings, GradientSum* gradient,
                                 std::span<float> scores) const {
  const size_t width = score_count();
  MILLRACE_CHECK(gradient == nullptr && parameters.size() == parameter_count());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * width);
  Copy copy(*this, rows, parameters, embeddings);
  const std::unique_ptr<OnlineLearner> learner = MakeLearner();
  std::optional<NewtonRacer> newton = MakeNewton(parameters);
  if (newton) learner->SetNewton(&*newton);
  learner->SetRace(copy.race());
  learner->SetTarget(scaler.target());
  std::vector<float> numeric(shape_.numeric);
  BatchLoss loss;
  for (size_t i = 0; i < rows.size(); ++i) {
    scaler.ScaleRow(rows[i]->numeric, numeric);
    if (newton) newton->SetRow(numeric);
    learner->Test(copy.NextRow(*rows[i], numeric),
                  scores.empty() ? scores : scores.subspan(i * width, width));
    AddLoss(learner->LossOfRow(*rows[i]), loss);
  }
  return loss;
}

BatchLoss OnlineSoftmax::Learn(const Batch& batch, RunningScaler& scaler,
                               std::span<const float> parameters, const EmbeddingBatch& embeddings,
                               GradientSum& change, std::span<float> scores) const {
  const size_t width = score_count();
  MILLRACE_CHECK(parameters.size() == parameter_count() && scaler.columns() == shape_.numeric);
  MILLRACE_CHECK(scores.size() == batch.rows.size() * width);
  MILLRACE_CHECK(batch.trained_begin <= batch.trained_end &&
                 batch.trained_end <= batch.rows.size() && batch.concurrent >= 1);
  Copy copy(*this, batch.rows, parameters, embeddings);
  const std::vector<float> first_race = copy.race_floats();
  const std::unique_ptr<OnlineLearner> learner = MakeLearner();
  std::optional<NewtonRacer> newton = MakeNewton(parameters);
  if (newton) learner->SetNewton(&*newton);
  std::vector<float> numeric(shape_.numeric);
  std::vector<float> uncounted = first_race;  // of rows that do not count in the race
  LearntRows learnt(copy.values().data(), columns_);
  BatchLoss loss;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Row& row = *batch.rows[i];
    const std::span<float> score = scores.subspan(i * width, width);
    scaler.ScaleRow(row.numeric, numeric);
    if (newton) newton->SetRow(numeric);
    const std::span<const Term> terms = copy.NextRow(row, numeric);
    learner->SetRace(copy.race());
    learner->SetTarget(scaler.target());
    learner->Test(terms, score);
    if (i >= batch.trained_begin && i < batch.trained_end) {
      if (batch.balance != nullptr) {
        learner->SetClassWeight(row.label, batch.balance->WeightOf(row.label));
      }
      AddLoss(learner->LossOfRow(row), loss);
      const bool counts = i >= batch.scaled_begin;
      const RaceView race = counts ? copy.race() : RaceView::Of(uncounted, shape_.classes);
      const bool learns = learner->Learn(terms, row, race);
      if (learns && newton && counts) newton->Learn(learner->steps());
      if (learns && batch.concurrent > 1) learnt.Add(terms, learner->steps());
    }
    if (i < batch.scaled_begin || i >= batch.trained_end) continue;
    scaler.Add(row);
    if (shape_.classes == 0) scaler.AddTarget(row, learner->Unlimited());
    if (batch.balance != nullptr) batch.balance->Add(row.label);
  }
  if (batch.trained_begin == batch.trained_end) return loss;
  std::vector<float> of_blocks = copy.Change();
  if (batch.concurrent > 1) {
    DampChange(learnt, copy.values(), shape_.numeric, batch.concurrent, of_blocks);
  }
  AddBlockChanges(copy, of_blocks, embeddings, change);
  if (newton) AddNewtonChange(*newton, change);
  const size_t counted_begin = std::max(batch.trained_begin, batch.scaled_begin);
  AddRaceChange(first_race, copy.race_floats(),
                batch.trained_end - std::min(counted_begin, batch.trained_end), batch.concurrent,
                change);
  return loss;
}

void OnlineSoftmax::AddBlockChanges(const Copy& copy, std::span<const float> changes,
                                    const EmbeddingBatch& embeddings, GradientSum& change) const {
  const float* next = changes.data();
  const auto add = [&](float* to) {
    for (size_t c = 0; c < columns_;
         ++c, next += OnlineLearner::kLanes, to += OnlineRace::kValues) {
      for (size_t i = 0; i < OnlineRace::kValues; ++i) to[i] += next[i];
    }
  };
  const auto add_dense = [&](size_t key) { add(change.Block(key / block_)); };
  for (size_t i = 0; i < shape_.numeric; ++i) add_dense(i * block_);
  for (const size_t feature : copy.features()) add_dense(feature * block_);
  for (const size_t at : copy.rows()) {
    add(embeddings.gradient.data() + at * block_);
  }
  add_dense(BiasKey());
  MILLRACE_CHECK(next == changes.data() + changes.size());
}

void OnlineSoftmax::AddNewtonChange(const NewtonRacer& newton, GradientSum& change) const {
  std::vector<float> sums(parameter_count() - NewtonKey());
  newton.AddChange(sums);
  for (size_t begin = 0; begin < sums.size(); begin += block_) {
    float* const to = change.Block((NewtonKey() + begin) / block_);
    for (size_t i = 0; i < block_; ++i) to[i] += sums[begin + i];
  }
}

// Of the race before the batch a worker subtracts its part of what all forget together; what it has
// added itself it has discounted already.
void OnlineSoftmax::AddRaceChange(std::span<const float> first, std::span<const float> last,
                                  size_t rows, uint32_t concurrent, GradientSum& change) const {
  const double kept = Power(1 - 1 / OnlineRace::kMemory, rows);
  const double all_kept = Power(kept, concurrent);
  const auto forgotten = static_cast<float>((1 - all_kept) / concurrent);
  for (size_t i = 0; i < first.size(); ++i) {
    const float learnt = last[i] - first[i] * static_cast<float>(kept);
    change.Block((RaceKey() + i) / block_)[i % block_] += learnt - first[i] * forgotten;
  }
}

std::vector<float> OnlineSoftmax::Mix(const OnlineLearner& learner,
                                      std::span<const float> blocks) const {
  MILLRACE_CHECK(blocks.size() % block_ == 0);
  std::vector<float> weights(blocks.size() / block_ * columns_);
  for (size_t block = 0; block * block_ < blocks.size(); ++block) {
    learner.Mix(blocks.data() + block * block_,
                std::span(weights).subspan(block * columns_, columns_));
  }
  return weights;
}

// Of two classes each has half of the log odds, and the softmax of both is the same.
std::vector<float> OnlineSoftmax::OfScores(std::vector<float> weights) const {
  if (shape_.classes != 2) return weights;
  std::vector<float> of_both;
  of_both.reserve(2 * weights.size());
  for (const float weight : weights) {
    of_both.push_back(-weight / 2);
    of_both.push_back(weight / 2);
  }
  return of_both;
}

std::unique_ptr<OnlineLearner> OnlineSoftmax::LearnerOf(std::span<const float> parameters) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  std::unique_ptr<OnlineLearner> learner = MakeLearner();
  learner->SetHasNewton(NewtonRacer::SumsFor(shape_.numeric, columns_) > 0);
  std::vector<float> race(parameters.begin() + static_cast<ptrdiff_t>(RaceKey()),
                          parameters.begin() + static_cast<ptrdiff_t>(NewtonKey()));
  learner->SetRace(RaceView::Of(race, shape_.classes));
  return learner;
}

std::vector<float> OnlineSoftmax::MixBlocks(std::span<const float> parameters,
                                            std::span<const float> blocks) const {
  return OfScores(Mix(*LearnerOf(parameters), blocks));
}

std::vector<float> OnlineSoftmax::MixedParameters(std::span<const float> parameters) const {
  const std::optional<NewtonRacer> newton = MakeNewton(parameters);
  const auto learner = LearnerOf(parameters);
  std::vector<float> weights = Mix(*learner, parameters.first(RaceKey()));
  const size_t bias = weights.size() - columns_;
  for (size_t c = 0; c < columns_; ++c) {
    weights[bias + c] += learner->PriorScore(c);
    if (!newton) continue;
    const std::span<const double> own = newton->Weights(c);
    for (size_t i = 0; i <= shape_.numeric; ++i) {
      float& weight = weights[(i < shape_.numeric ? i * columns_ : bias) + c];
      weight += learner->share(OnlineRace::kNewton) * static_cast<float>(own[i]);
    }
  }
  return OfScores(std::move(weights));
}

std::vector<float> OnlineSoftmax::PredictingWeights(std::span<const float> parameters,
                                                    std::span<const float> rows) const {
  const size_t hashed = shape_.features - shape_.numeric;
  MILLRACE_CHECK(rows.size() == (shape_.wide ? hashed * block_ : 0));
  std::vector<float> weights = MixedParameters(parameters);
  const std::vector<float> of_rows = MixBlocks(parameters, rows);
  weights.insert(weights.end() - static_cast<ptrdiff_t>(score_count()), of_rows.begin(),
                 of_rows.end());
  return weights;
}

}  // namespace millrace
