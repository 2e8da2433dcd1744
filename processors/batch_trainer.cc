#include "processors/batch_trainer.h"

#include <algorithm>

#include "base/check.h"
#include "models/online_softmax.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

LocalSolverOptions SolverOptions(const Training& training) {
  LocalSolverOptions options;
  const Training::Update& update = training.update();
  options.kind = update.solver() == Training::Update::LOCAL_SGD ? LocalSolverOptions::Kind::kSgd
                                                                : LocalSolverOptions::Kind::kLbfgs;
  options.iterations = update.local_iterations();
  options.learning_rate = update.local_learning_rate();
  options.l2 = training.l2();
  return options;
}

}  // namespace

BatchTrainer::BatchTrainer(const WorkerOptions& options, const Model& model)
    : options_(options), model_(model), gradient_(model.parameter_count(), model.block_size()) {}

uint64_t BatchTrainer::StreamRowOf(const Batch& batch, size_t i) const {
  return StreamRow({options_.worker, batch.numbers[i]}, options_.dealing);
}

BatchTrainer::Result BatchTrainer::Train(const Batch& batch, std::span<const float> weights,
                                         const Moments& moments, const EmbeddingBatch& embeddings) {
  MILLRACE_CHECK(batch.rows.size() == batch.numbers.size());
  MILLRACE_CHECK(weights.size() == model_.parameter_count());
  const uint64_t freeze = options_.training.freeze_after_rows();
  // Numbers ascend, so what may be learnt from is a range.
  size_t trained_end = batch.rows.size();
  while (freeze > 0 && trained_end > 0 && StreamRowOf(batch, trained_end - 1) >= freeze) {
    --trained_end;
  }
  const size_t trained_begin = std::min(batch.first_trained, trained_end);
  Result result;
  result.trained_end = trained_end;
  if (options_.classes == 0 && !moments.target.known()) {
    const bool learns = batch.first_new < trained_end;
    result.unpredicted = learns ? batch.first_new + 1 : batch.rows.size();
  }
  result.trained = RowsView(batch.rows).subspan(trained_begin, trained_end - trained_begin);
  if (model_.online() != nullptr) {
    Learn(batch, trained_begin, weights, moments, embeddings, result);
  } else {
    Compute(batch, trained_begin, weights, moments, embeddings, result);
  }
  Count(batch, trained_begin, result);
  return result;
}

std::unique_ptr<ClassBalance> BatchTrainer::BalanceAfter(const Moments& moments) const {
  if (!options_.balances_classes) return nullptr;
  return std::make_unique<ClassBalance>(moments, options_.classes);
}

void BatchTrainer::Learn(const Batch& batch, size_t trained_begin, std::span<const float> weights,
                         const Moments& moments, const EmbeddingBatch& embeddings, Result& result) {
  const RowsView rows(batch.rows);
  const uint32_t workers = moments.workers > 0 ? moments.workers : options_.workers_with_rows();
  RunningScaler scaler(moments, options_.training.scaling() == Training::RUNNING);
  const std::unique_ptr<ClassBalance> balance = BalanceAfter(moments);
  scores_.resize(rows.size() * model_.score_count());
  gradient_.Clear();
  result.loss =
      model_.online()->Learn({.rows = rows,
                              .trained_begin = trained_begin,
                              .trained_end = result.trained_end,
                              .scaled_begin = batch.first_new,
                              .concurrent = static_cast<uint32_t>(workers * options_.pipeline),
                              .balance = balance.get()},
                             scaler, weights, embeddings, gradient_, scores_);
  result.new_moments = scaler.added();
  if (balance != nullptr) result.new_moments.class_rows = balance->added();
}

void BatchTrainer::Compute(const Batch& batch, size_t trained_begin, std::span<const float> weights,
                           const Moments& moments, const EmbeddingBatch& embeddings,
                           Result& result) {
  const RowsView rows(batch.rows);
  const size_t width = model_.score_count();
  const size_t trained_end = result.trained_end;
  // The scaling knows the features of the rows it is about to scale, never their labels.
  const bool scales = options_.training.scaling() == Training::RUNNING;
  result.new_moments = Moments(moments.columns());
  for (size_t i = batch.first_new; scales && i < trained_end; ++i) {
    result.new_moments.Add(*batch.rows[i]);
  }
  const TargetMoments before = CountTargets(batch, moments, result);
  Moments merged = moments;
  merged.Merge(result.new_moments);
  const std::unique_ptr<ClassBalance> balance = BalanceAfter(moments);
  std::unique_ptr<Model> weighted;
  if (balance != nullptr) {  // by the rows of the batch, too
    for (size_t i = batch.first_new; i < trained_end; ++i) balance->Add(batch.rows[i]->label);
    result.new_moments.class_rows = balance->added();
    weighted = model_.WithClassWeights(balance->Weights());
  }
  const Model& model = weighted != nullptr ? *weighted : model_;
  Scaler scaler = scales ? Scaler(merged) : Scaler::Identity(merged.columns());
  // (The batch's own range says nothing of what was known before it.)
  const TargetMoments own = merged.target.WithoutVotes();
  scaler.set_target(own);
  // (Classes have no unit, in which the batch's own would be needed.)
  scaler.set_class_rows(moments.class_rows);
  scores_.resize(rows.size() * width);
  const std::span<float> scores(scores_);
  gradient_.Clear();
  const auto compute = [&](size_t begin, size_t end, GradientSum* gradient) {
    return model.Compute(rows.subspan(begin, end - begin), scaler, weights, embeddings, gradient,
                         scores.subspan(begin * width, (end - begin) * width));
  };
  const bool changes = options_.training.update().kind() == Training::Update::WEIGHT_CHANGE;
  compute(0, trained_begin, nullptr);
  result.loss = compute(trained_begin, trained_end, changes ? nullptr : &gradient_);
  compute(trained_end, rows.size(), nullptr);
  if (options_.classes == 0) TestByTargetsBefore(batch, own, before, result);
  if (!changes || result.trained.empty()) return;
  result.change =
      SolveLocally(model, result.trained, scaler, weights, SolverOptions(options_.training)).change;
}

TargetMoments BatchTrainer::CountTargets(const Batch& batch, const Moments& moments,
                                         Result& result) const {
  TargetMoments before = moments.target;
  if (options_.classes > 0) {
    if (!model_.uses_targets() || options_.balances_classes) return before;
    std::vector<uint64_t>& class_rows = result.new_moments.class_rows;
    class_rows.resize(options_.classes);
    for (size_t i = batch.first_new; i < result.trained_end; ++i) {
      ++class_rows.at(batch.rows[i]->label);
    }
    return before;
  }
  for (size_t i = batch.first_new; i < result.trained_end; ++i) {
    const float target = batch.rows[i]->target;
    if (!before.known()) before.Add(target);
    result.new_moments.target.Add(target);
  }
  return before;
}

void BatchTrainer::TestByTargetsBefore(const Batch& batch, const TargetMoments& own,
                                       const TargetMoments& before, Result& result) {
  const double factor = before.deviation() / own.deviation();
  for (size_t i = 0; i < scores_.size(); ++i) {
    const double estimate = before.mean + (static_cast<double>(scores_[i]) - own.mean) * factor;
    scores_[i] = static_cast<float>(before.Shown(estimate));
    const bool is_new = i >= batch.first_new && i < result.trained_end;
    if (!is_new || i < result.unpredicted) continue;
    result.new_moments.target.AddOutcome(before.OutcomeOf(estimate, batch.rows[i]->target));
  }
}

void BatchTrainer::Count(const Batch& batch, size_t trained_begin, Result& result) const {
  const Training& training = options_.training;
  const uint64_t tail =
      training.tail_after_rows() > 0 ? training.tail_after_rows() : training.freeze_after_rows();
  const size_t trained_end = result.trained_end;
  const size_t width = model_.score_count();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Row& row = *batch.rows[i];
    const std::span<const float> scores = std::span(scores_).subspan(i * width, width);
    const auto add = [&](EvaluationSums& to) {
      i < result.unpredicted ? to.AddUnpredicted() : to.AddRow(row, scores, options_.classes);
    };
    if (options_.evaluate_batches) add(result.whole);
    if (i < batch.first_new || row.replayed) continue;
    ++result.new_rows;
    if (i >= trained_begin && i < trained_end) ++result.new_trained;
    add(result.progressive);
    if (tail > 0 && StreamRowOf(batch, i) >= tail) add(result.tail);
  }
}

}  // namespace millrace
