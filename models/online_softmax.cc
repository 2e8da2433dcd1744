#include "models/online_softmax.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "models/feature_numbers.h"
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
// hashed features that its rows name, then the bias; and the race.
class OnlineSoftmax::Copy {
 public:
  Copy(const OnlineSoftmax& model, RowsView rows, std::span<const float> parameters,
       const EmbeddingBatch& embeddings)
      : model_(model),
        local_(model.shape_.wide ? NumberFeatures(rows, embeddings.ids, model.shape_.numeric)
                                 : NumberFeatures(rows, model.shape_.numeric)) {
    const size_t block = model.block_;
    const float* const dense = parameters.data();
    values_.reserve((model.shape_.numeric + local_.from.size() + 1) * block);
    values_.assign(dense, dense + model.shape_.numeric * block);
    for (const size_t at : local_.from) {
      const float* const from =
          model.shape_.wide ? embeddings.values.data() + at * block : dense + at * block;
      values_.insert(values_.end(), from, from + block);
    }
    values_.insert(values_.end(), dense + model.BiasKey(), dense + model.RaceKey());
    race_.assign(dense + model.RaceKey(), dense + model.parameter_count());
  }

  RaceView race() { return RaceView::Of(race_, model_.shape_.classes); }
  const std::vector<float>& race_floats() const { return race_; }
  const std::vector<float>& values() const { return values_; }
  // Where the block of each hashed feature stands: in the embedding batch of a wide model, else
  // among the features.
  const std::vector<size_t>& from() const { return local_.from; }
  size_t bias() const { return model_.shape_.numeric + local_.from.size(); }  // its block

  // The row's features that are not 0. To be called for each row, in order. `joint`: the sums of
  // all blocks, or null.
  std::span<const Term> NextRow(const Row& row, std::span<const float> numeric, float* joint) {
    MILLRACE_CHECK(row.numeric.size() == model_.shape_.numeric);
    MILLRACE_CHECK(row.index.size() == row.value.size());
    terms_.clear();
    for (size_t i = 0; i < numeric.size(); ++i) Append(i, numeric[i], joint);
    for (const float value : row.value) {
      Append(local_.places[place_++], value, joint);
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

  const OnlineSoftmax& model_;
  FeatureNumbers local_;
  std::vector<float> values_;
  std::vector<float> race_;
  std::vector<Term> terms_;
  size_t place_ = 0;  // of the next row's first hashed feature in local_.places
};

OnlineSoftmax::OnlineSoftmax(const Shape& shape, std::vector<float> class_weights)
    : shape_(shape),
      class_weights_(std::move(class_weights)),
      columns_(OnlineLearner::ColumnsFor(shape.classes)),
      block_(OnlineLearner::BlockSizeFor(shape.classes)) {
  MILLRACE_CHECK(shape.classes >= 2 && shape.numeric <= shape.features);
}

size_t OnlineSoftmax::parameter_count() const {
  return RaceKey() + RoundUpTo(RaceView::FloatsFor(shape_.classes), block_);
}

void OnlineSoftmax::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  if (shape_.wide) ids.insert(ids.end(), row.index.begin(), row.index.end());
}

BatchLoss OnlineSoftmax::Compute(RowsView rows, const Scaler& scaler,
                                 std::span<const float> parameters,
                                 const EmbeddingBatch& embeddings, GradientSum* gradient,
                                 std::span<float> scores) const {
  MILLRACE_CHECK(gradient == nullptr && parameters.size() == parameter_count());
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * shape_.classes);
  Copy copy(*this, rows, parameters, embeddings);
  OnlineLearner learner(shape_.classes, class_weights_);
  learner.SetRace(copy.race());
  std::vector<float> numeric(shape_.numeric);
  BatchLoss loss;
  for (size_t i = 0; i < rows.size(); ++i) {
    scaler.ScaleRow(rows[i]->numeric, numeric);
    learner.Test(copy.NextRow(*rows[i], numeric, nullptr),
                 scores.empty() ? scores : scores.subspan(i * shape_.classes, shape_.classes));
    AddLoss(learner.LossOfRow(rows[i]->label), loss);
  }
  return loss;
}

BatchLoss OnlineSoftmax::Learn(const Batch& batch, RunningScaler& scaler,
                               std::span<const float> parameters, const EmbeddingBatch& embeddings,
                               GradientSum& change, std::span<float> scores) const {
  MILLRACE_CHECK(parameters.size() == parameter_count() && scaler.columns() == shape_.numeric);
  MILLRACE_CHECK(scores.size() == batch.rows.size() * shape_.classes);
  MILLRACE_CHECK(batch.trained_begin <= batch.trained_end &&
                 batch.trained_end <= batch.rows.size() && batch.concurrent >= 1);
  Copy copy(*this, batch.rows, parameters, embeddings);
  const std::vector<float> first = copy.values();
  const std::vector<float> first_race = copy.race_floats();
  std::vector<float> joint(first.size() / OnlineRace::kValues);
  OnlineLearner learner(shape_.classes, class_weights_);
  std::vector<float> numeric(shape_.numeric);
  BatchLoss loss;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Row& row = *batch.rows[i];
    scaler.ScaleRow(row.numeric, numeric);
    const std::span<const Term> terms = copy.NextRow(row, numeric, joint.data());
    learner.SetRace(copy.race());
    learner.Test(terms, scores.subspan(i * shape_.classes, shape_.classes));
    if (i >= batch.trained_begin && i < batch.trained_end) {
      AddLoss(learner.LossOfRow(row.label), loss);
      learner.Learn(terms, row.label, copy.race());
    }
    if (i >= batch.scaled_begin && i < batch.trained_end) scaler.Add(row);
  }
  if (batch.trained_begin == batch.trained_end) return loss;
  AddBlockChanges(copy, first, joint, batch.concurrent, embeddings, change);
  AddRaceChange(first_race, copy.race_floats(), batch.trained_end - batch.trained_begin,
                batch.concurrent, change);
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
  for (size_t i = 0; i < copy.from().size(); ++i) {
    const size_t at = copy.from()[i];
    add(shape_.numeric + i,
        shape_.wide ? embeddings.gradient.data() + at * block_ : change.Block(at));
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
  OnlineLearner learner(shape_.classes, class_weights_);
  std::vector<float> race_floats(parameters.begin() + static_cast<ptrdiff_t>(RaceKey()),
                                 parameters.end());
  learner.SetRace(RaceView::Of(race_floats, shape_.classes));
  const size_t classes = shape_.classes;
  std::vector<float> weights;
  weights.reserve((shape_.features + 1) * classes);
  std::vector<float> column(columns_);
  // Of two classes each has half of the log odds, and the softmax of both is the same.
  const auto append = [&] {
    if (columns_ == 1) {
      weights.push_back(-column[0] / 2);
      weights.push_back(column[0] / 2);
    } else {
      weights.insert(weights.end(), column.begin(), column.end());
    }
  };
  for (size_t feature = 0; feature < shape_.features; ++feature) {
    const bool is_row = shape_.wide && feature >= shape_.numeric;
    learner.Mix(is_row ? rows.data() + (feature - shape_.numeric) * block_
                       : parameters.data() + feature * block_,
                column);
    append();
  }
  learner.Mix(parameters.data() + BiasKey(), column);
  for (size_t c = 0; c < columns_; ++c) column[c] += learner.PriorScore(c);
  append();
  return weights;
}

}  // namespace millrace
