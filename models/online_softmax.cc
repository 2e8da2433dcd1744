#include "models/online_softmax.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
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

size_t RoundUpTo(size_t count, size_t to) { return (count + to - 1) / to * to; }

// Adds a worker's change of a block to `to`. `joint` has a sum for each column (DampingOf).
void AddBlockChange(const float* first, const float* last, std::span<const float> joint,
                    uint32_t concurrent, float* to) {
  for (const float joint_of_column : joint) {
    const auto damping = DampingOf(first, last, joint_of_column, concurrent);
    for (size_t e = 0; e < OnlineRace::kRates; ++e) to[e] += damping[e] * (last[e] - first[e]);
    to[OnlineRace::kCurvature] += last[OnlineRace::kCurvature] - first[OnlineRace::kCurvature];
    first += OnlineRace::kValues;
    last += OnlineRace::kValues;
    to += OnlineRace::kValues;
  }
}

}  // namespace

// The blocks that a batch needs, copied to one array: those of the numeric columns, then of the
// dense hashed features that its rows name, then of the embedding rows, then the bias; and the
// race.
class OnlineSoftmax::Copy {
 public:
  Copy(const OnlineSoftmax& model, RowsView rows, std::span<const float> parameters,
       const EmbeddingBatch& embeddings)
      : model_(model),
        dense_(model.shape_.wide ? FeatureNumbers{} : NumberFeatures(rows, model.shape_.numeric)),
        rows_(NumberRows(rows, {.features = model.shape_.wide, .ids = model.shape_.ids},
                         embeddings.ids, first_row())) {
    const size_t block = model.block_;
    const float* const dense = parameters.data();
    values_.reserve((bias() + 1) * block);
    values_.assign(dense, dense + model.shape_.numeric * block);
    const auto append = [&](const float* from) {
      values_.insert(values_.end(), from, from + block);
    };
    for (const size_t feature : dense_.from) append(dense + feature * block);
    for (const size_t at : rows_.from) append(embeddings.values.data() + at * block);
    values_.insert(values_.end(), dense + model.BiasKey(), dense + model.RaceKey());
    race_.assign(dense + model.RaceKey(), dense + model.parameter_count());
  }

  RaceView race() { return RaceView::Of(race_, model_.shape_.classes); }
  const std::vector<float>& race_floats() const { return race_; }
  const std::vector<float>& values() const { return values_; }
  // The features whose blocks follow those of the numeric columns.
  const std::vector<size_t>& features() const { return dense_.from; }
  // Where the rows stand in the embedding batch whose blocks follow, from first_row() on.
  const std::vector<size_t>& rows() const { return rows_.from; }
  size_t first_row() const { return model_.shape_.numeric + dense_.from.size(); }
  size_t bias() const { return first_row() + rows_.from.size(); }  // its block

  // The row's features that are not 0. To be called for each row, in order. `joint`: the sums of
  // all blocks, or null.
  std::span<const Term> NextRow(const Row& row, std::span<const float> numeric, float* joint) {
    MILLRACE_CHECK(row.numeric.size() == model_.shape_.numeric);
    MILLRACE_CHECK(row.index.size() == row.value.size());
    terms_.clear();
    for (size_t i = 0; i < numeric.size(); ++i) Append(i, numeric[i], joint);
    for (const float value : row.value) {
      Append(model_.shape_.wide ? NextOf(rows_) : NextOf(dense_), value, joint);
    }
    for (size_t i = 0; i < row.ids.size() && model_.shape_.ids; ++i) {
      Append(NextOf(rows_), 1.0f, joint);
    }
    Append(bias(), 1.0f, joint);
    return terms_;
  }

 private:
  void Append(size_t block, float x, float* joint) {
    if (x == 0) return;
    x = std::clamp(x, -OnlineRace::kLargestFeature, OnlineRace::kLargestFeature);
    terms_.push_back({values_.data() + block * model_.block_,
                      joint == nullptr ? nullptr : joint + block * model_.columns_, x});
  }

  // The next number of those that the rows name.
  struct Numbers : FeatureNumbers {
    explicit Numbers(FeatureNumbers numbers) : FeatureNumbers(std::move(numbers)) {}
    size_t next = 0;
  };
  static size_t NextOf(Numbers& numbers) { return numbers.places[numbers.next++]; }

  const OnlineSoftmax& model_;
  Numbers dense_;
  Numbers rows_;
  std::vector<float> values_;
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

size_t OnlineSoftmax::parameter_count() const {
  return RaceKey() + RoundUpTo(RaceView::FloatsFor(shape_.classes), block_);
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
  learner->SetRace(copy.race());
  learner->SetTarget(scaler.target());
  std::vector<float> numeric(shape_.numeric);
  BatchLoss loss;
  for (size_t i = 0; i < rows.size(); ++i) {
    scaler.ScaleRow(rows[i]->numeric, numeric);
    learner->Test(copy.NextRow(*rows[i], numeric, nullptr),
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
  const std::vector<float> first = copy.values();
  const std::vector<float> first_race = copy.race_floats();
  std::vector<float> joint(first.size() / OnlineRace::kValues);
  const std::unique_ptr<OnlineLearner> learner = MakeLearner();
  std::vector<float> numeric(shape_.numeric);
  std::vector<float> uncounted = first_race;  // of rows that do not count in the race
  BatchLoss loss;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Row& row = *batch.rows[i];
    const std::span<float> score = scores.subspan(i * width, width);
    scaler.ScaleRow(row.numeric, numeric);
    const std::span<const Term> terms = copy.NextRow(row, numeric, joint.data());
    learner->SetRace(copy.race());
    learner->SetTarget(scaler.target());
    learner->Test(terms, score);
    if (i >= batch.trained_begin && i < batch.trained_end) {
      if (batch.balance != nullptr) {
        learner->SetClassWeight(row.label, batch.balance->WeightOf(row.label));
      }
      AddLoss(learner->LossOfRow(row), loss);
      const bool counts = i >= batch.scaled_begin;
      learner->Learn(terms, row, counts ? copy.race() : RaceView::Of(uncounted, shape_.classes));
    }
    if (i < batch.scaled_begin || i >= batch.trained_end) continue;
    scaler.Add(row);
    if (shape_.classes == 0) scaler.AddTarget(row, score[0]);
    if (batch.balance != nullptr) batch.balance->Add(row.label);
  }
  if (batch.trained_begin == batch.trained_end) return loss;
  AddBlockChanges(copy, first, joint, batch.concurrent, embeddings, change);
  const size_t counted_begin = std::max(batch.trained_begin, batch.scaled_begin);
  AddRaceChange(first_race, copy.race_floats(),
                batch.trained_end - std::min(counted_begin, batch.trained_end), batch.concurrent,
                change);
  return loss;
}

void OnlineSoftmax::AddBlockChanges(const Copy& copy, std::span<const float> first,
                                    std::span<const float> joint, uint32_t concurrent,
                                    const EmbeddingBatch& embeddings, GradientSum& change) const {
  const float* const last = copy.values().data();
  const auto add = [&](size_t block, float* to) {
    AddBlockChange(first.data() + block * block_, last + block * block_,
                   joint.subspan(block * columns_, columns_), concurrent, to);
  };
  for (size_t i = 0; i < shape_.numeric; ++i) add(i, change.Block(i));
  for (size_t i = 0; i < copy.features().size(); ++i) {
    add(shape_.numeric + i, change.Block(copy.features()[i]));
  }
  for (size_t i = 0; i < copy.rows().size(); ++i) {
    add(copy.first_row() + i, embeddings.gradient.data() + copy.rows()[i] * block_);
  }
  add(copy.bias(), change.Block(BiasKey() / block_));
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

std::vector<float> OnlineSoftmax::PredictingWeights(std::span<const float> parameters,
                                                    std::span<const float> rows) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  const size_t hashed = shape_.features - shape_.numeric;
  MILLRACE_CHECK(rows.size() == (shape_.wide ? hashed * block_ : 0));
  const std::unique_ptr<OnlineLearner> learner = MakeLearner();
  std::vector<float> race_floats(parameters.begin() + static_cast<ptrdiff_t>(RaceKey()),
                                 parameters.end());
  learner->SetRace(RaceView::Of(race_floats, shape_.classes));
  std::vector<float> weights;
  weights.reserve((shape_.features + 1) * score_count());
  std::vector<float> column(columns_);
  // Of two classes each has half of the log odds, and the softmax of both is the same.
  const auto append = [&] {
    if (shape_.classes == 2) {
      weights.push_back(-column[0] / 2);
      weights.push_back(column[0] / 2);
    } else {
      weights.insert(weights.end(), column.begin(), column.end());
    }
  };
  for (size_t feature = 0; feature < shape_.features; ++feature) {
    const bool is_row = shape_.wide && feature >= shape_.numeric;
    learner->Mix(is_row ? rows.data() + (feature - shape_.numeric) * block_
                        : parameters.data() + feature * block_,
                 column);
    append();
  }
  learner->Mix(parameters.data() + BiasKey(), column);
  for (size_t c = 0; c < columns_; ++c) column[c] += learner->PriorScore(c);
  append();
  return weights;
}

}  // namespace millrace
