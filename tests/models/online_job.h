// A job of one worker that learns row by row: the parameters on its server, and batches of rows.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "models/online_softmax.h"
#include "tests/models/random_rows.h"

namespace millrace {

class OnlineJob {
 public:
  explicit OnlineJob(const OnlineSoftmax::Shape& shape, std::vector<float> class_weights = {},
                     bool scales = true)
      : shape_(shape),
        scales_(scales),
        model_(shape, std::move(class_weights)),
        parameters_(model_.parameter_count()),
        moments_(shape.numeric) {}

  // From here on rows are weighed by how rare their class has been.
  void BalanceClasses() { balances_ = true; }

  struct Change {
    std::vector<float> parameters;
    std::vector<uint32_t> blocks;  // those touched
    std::vector<EmbeddingId> ids;
    std::vector<float> rows;
    Moments moments;
    std::vector<float> scores;
    BatchLoss loss;
  };
  // What a worker would send; changes nothing. The range of `batch` is counted in these rows.
  Change ChangeBy(OnlineSoftmax::Batch batch) const {
    Change change;
    for (const Row* row : batch.rows) model_.AppendIds(*row, change.ids);
    std::ranges::sort(change.ids);
    change.ids.erase(std::ranges::unique(change.ids).begin(), change.ids.end());
    const std::vector<float> values = RowsOf(change.ids);
    change.rows.resize(values.size());
    change.scores.resize(batch.rows.size() * shape_.classes);
    GradientSum sum(model_.parameter_count(), model_.block_size());
    RunningScaler scaler(moments_, scales_);
    ClassBalance balance(moments_, shape_.classes);
    if (balances_) batch.balance = &balance;
    change.loss = model_.Learn(batch, scaler, parameters_, {change.ids, values, change.rows}, sum,
                               change.scores);
    change.parameters.assign(sum.values().begin(), sum.values().end());
    const std::span<const uint32_t> blocks = sum.SortedBlocks();
    change.blocks.assign(blocks.begin(), blocks.end());
    change.moments = scaler.added();
    if (balances_) change.moments.class_rows = balance.added();
    return change;
  }
  Change ChangeBy(std::span<const Row* const> rows, uint32_t concurrent = 1) const {
    return ChangeBy({.rows = rows, .trained_end = rows.size(), .concurrent = concurrent});
  }

  void Apply(const Change& change) {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] += change.parameters[i];
    for (size_t i = 0; i < change.ids.size(); ++i) {
      std::vector<float>& row = rows_[change.ids[i]];
      row.resize(model_.row_width());
      for (size_t k = 0; k < row.size(); ++k) row[k] += change.rows[i * row.size() + k];
    }
    moments_.Merge(change.moments);
    scores_.insert(scores_.end(), change.scores.begin(), change.scores.end());
    loss_.loss_sum += change.loss.loss_sum;
    loss_.weight_sum += change.loss.weight_sum;
  }

  void Learn(const std::vector<Row>& rows, size_t batch_rows = 32) {
    const std::vector<const Row*> all = Pointers(rows);
    for (size_t begin = 0; begin < all.size(); begin += batch_rows) {
      Apply(ChangeBy(std::span(all).subspan(begin, std::min(batch_rows, all.size() - begin))));
    }
  }

  // The probabilities of the row's classes, by the parameters as they are.
  std::vector<float> Test(const Row& row) const {
    std::vector<EmbeddingId> ids;
    model_.AppendIds(row, ids);
    std::vector<float> scores(shape_.classes);
    const Row* const pointer = &row;
    model_.Compute({&pointer, 1}, scaler(), parameters_, {ids, RowsOf(ids), {}}, nullptr, scores);
    return scores;
  }

  Scaler scaler() const { return scales_ ? Scaler(moments_) : Scaler::Identity(shape_.numeric); }
  // Zeros for those that there are not.
  std::vector<float> RowsOf(const std::vector<EmbeddingId>& ids) const {
    std::vector<float> values;
    for (const EmbeddingId id : ids) {
      const auto found = rows_.find(id);
      if (found != rows_.end()) {
        values.insert(values.end(), found->second.begin(), found->second.end());
      } else {
        values.resize(values.size() + model_.row_width());
      }
    }
    return values;
  }

  // Of a narrow model: a rate's weight (or the curvature) of a feature; the bias is the last one.
  float Value(size_t feature, size_t column, size_t value) const {
    return parameters_[feature * model_.block_size() + column * OnlineRace::kValues + value];
  }
  // The losses of the racers, then the counts of the classes.
  std::span<const float> Race() const {
    const size_t dense = shape_.wide ? shape_.numeric : shape_.features;
    return std::span(parameters_)
        .subspan((dense + 1) * model_.block_size(), RaceView::FloatsFor(shape_.classes));
  }

  const OnlineSoftmax& model() const { return model_; }
  std::vector<float>& parameters() { return parameters_; }
  const std::vector<float>& parameters() const { return parameters_; }
  const Moments& moments() const { return moments_; }
  const std::vector<float>& scores() const { return scores_; }  // of all rows so far
  double mean_loss() const { return loss_.loss_sum / loss_.weight_sum; }

 private:
  const OnlineSoftmax::Shape shape_;
  const bool scales_;
  bool balances_ = false;
  const OnlineSoftmax model_;
  std::vector<float> parameters_;
  std::map<EmbeddingId, std::vector<float>> rows_;
  Moments moments_;
  std::vector<float> scores_;
  BatchLoss loss_;
};

}  // namespace millrace
