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

// Adds a worker's change of a block to `to`. `first`: the block of the parameters; `last`: the
// working block.
void AddBlockChange(const float* first, const float* last, size_t columns, uint32_t concurrent,
                    float* to) {
  for (size_t c = 0; c < columns; ++c) {
    const auto damping =
        DampingOf(last[OnlineLearner::kJoint], last[OnlineLearner::kJointDecaying], concurrent);
    for (size_t e = 0; e < OnlineRace::kRates; ++e) to[e] += damping[e] * (last[e] - first[e]);
    to[OnlineRace::kCurvature] += last[OnlineRace::kCurvature] - first[OnlineRace::kCurvature];
    first += OnlineRace::kValues;
    last += OnlineLearner::kLanes;
    to += OnlineRace::kValues;
  }
}

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
    race_.assign(dense + model.RaceKey(), dense + model.parameter_count());
  }

  RaceView race() { return RaceView::Of(race_, model_.shape_.classes); }
  const std::vector<float>& race_floats() const { return race_; }
  const float* Block(size_t number) const { return values_.data() + number * working_block_; }
  // The features whose blocks follow those of the numeric columns.
  const std::vector<size_t>& features() const { return dense_.from; }
  // Where the rows stand in the embedding batch whose blocks follow.
  const std::vector<size_t>& rows() const { return rows_.from; }

  // The row's features that are not 0. To be called for each row, in order.
  std::span<const Term> NextRow(const Row& row, std::span<const float> numeric) {
    MILLRACE_CHECK(row.numeric.size() == model_.shape_.numeric);
    MILLRACE_CHECK(row.index.size() == row.value.size());
    terms_.clear();
    for (size_t i = 0; i < numeric.size(); ++i) AddTerm(i, numeric[i], OnlineLearner::kCentred);
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

  void AddTerm(size_t block, float x, float alike = 1) {
    if (x == 0) return;
    x = std::clamp(x, -OnlineRace::kLargestFeature, OnlineRace::kLargestFeature);
    terms_.push_back({values_.data() + block * working_block_, x, alike});
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
  std::vector<float> numeric(shape_.numeric);
  std::vector<float> uncounted = first_race;  // of rows that do not count in the race
  BatchLoss loss;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Row& row = *batch.rows[i];
    const std::span<float> score = scores.subspan(i * width, width);
    scaler.ScaleRow(row.numeric, numeric);
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
      learner->Learn(terms, row, counts ? copy.race() : RaceView::Of(uncounted, shape_.classes));
    }
    if (i < batch.scaled_begin || i >= batch.trained_end) continue;
    scaler.Add(row);
    if (shape_.classes == 0) scaler.AddTarget(row, score[0]);
    if (batch.balance != nullptr) batch.balance->Add(row.label);
  }
  if (batch.trained_begin == batch.trained_end) return loss;
  AddBlockChanges(copy, parameters, batch.concurrent, embeddings, change);
  const size_t counted_begin = std::max(batch.trained_begin, batch.scaled_begin);
  AddRaceChange(first_race, copy.race_floats(),
                batch.trained_end - std::min(counted_begin, batch.trained_end), batch.concurrent,
                change);
  return loss;
}

void OnlineSoftmax::AddBlockChanges(const Copy& copy, std::span<const float> parameters,
                                    uint32_t concurrent, const EmbeddingBatch& embeddings,
                                    GradientSum& change) const {
  size_t next = 0;
  const auto add = [&](const float* first, float* to) {
    AddBlockChange(first, copy.Block(next++), columns_, concurrent, to);
  };
  const auto add_dense = [&](size_t key) {
    add(parameters.data() + key, change.Block(key / block_));
  };
  for (size_t i = 0; i < shape_.numeric; ++i) add_dense(i * block_);
  for (const size_t feature : copy.features()) add_dense(feature * block_);
  for (const size_t at : copy.rows()) {
    add(embeddings.values.data() + at * block_, embeddings.gradient.data() + at * block_);
  }
  add_dense(BiasKey());
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

// The last block, if it is the bias, gets what the racer without features adds.
std::vector<float> OnlineSoftmax::Mix(std::span<const float> parameters,
                                      std::span<const float> blocks, bool ends_with_bias) const {
  MILLRACE_CHECK(parameters.size() == parameter_count() && blocks.size() % block_ == 0);
  const std::unique_ptr<OnlineLearner> learner = MakeLearner();
  std::vector<float> race_floats(parameters.begin() + static_cast<ptrdiff_t>(RaceKey()),
                                 parameters.end());
  learner->SetRace(RaceView::Of(race_floats, shape_.classes));
  std::vector<float> weights;
  weights.reserve(blocks.size() / block_ * score_count());
  std::vector<float> column(columns_);
  for (; !blocks.empty(); blocks = blocks.subspan(block_)) {
    learner->Mix(blocks.data(), column);
    const bool is_bias = ends_with_bias && blocks.size() == block_;
    for (size_t c = 0; c < columns_ && is_bias; ++c) column[c] += learner->PriorScore(c);
    if (shape_.classes == 2) {
      // Each class has half of the log odds, and the softmax of both is the same.
      weights.push_back(-column[0] / 2);
      weights.push_back(column[0] / 2);
    } else {
      weights.insert(weights.end(), column.begin(), column.end());
    }
  }
  return weights;
}

std::vector<float> OnlineSoftmax::MixBlocks(std::span<const float> parameters,
                                            std::span<const float> blocks) const {
  return Mix(parameters, blocks, false);
}

std::vector<float> OnlineSoftmax::MixedParameters(std::span<const float> parameters) const {
  return Mix(parameters, parameters.first(RaceKey()), true);
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
