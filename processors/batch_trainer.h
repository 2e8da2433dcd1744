// A worker's computation on a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/class_balance.h"
#include "models/evaluation.h"
#include "models/gradient_sum.h"
#include "models/local_solver.h"
#include "models/model.h"
#include "models/moments.h"
#include "processors/batch_source.h"
#include "processors/worker_options.h"

namespace millrace {

// Tests each new row with the weights that it is about to change, then trains on the rows that may
// be trained on. The same input gives the same bytes. Not thread-safe.
class BatchTrainer {
 public:
  // `model` outlives the trainer.
  BatchTrainer(const WorkerOptions& options, const Model& model);

  struct Result {
    RowsView trained;  // the batch's rows that were trained on, up to
    size_t trained_end = 0;
    BatchLoss loss{};  // of them
    // parameter_count() values; empty unless the job sends weight changes (else see gradient()) and
    // rows were trained on.
    std::vector<float> change{};
    Moments new_moments{};         // of the new rows that were trained on
    EvaluationSums progressive{};  // of new rows, in their first epoch
    EvaluationSums tail{};         // the same, of the job's tail
    EvaluationSums whole{};        // of all rows, if the options request it
    uint64_t new_rows = 0;         // in their first epoch,
    uint64_t new_trained = 0;      // and those of them that were trained on
    size_t unpredicted = 0;  // of a regression: the first rows, before which no target is known
  };
  // `moments` are of the rows so far. The gradients of embedding rows go to `embeddings`.
  Result Train(const Batch& batch, std::span<const float> weights, const Moments& moments,
               const EmbeddingBatch& embeddings);
  // The gradient of the last batch, or of an online learner the change; zero where `change` is
  // sent.
  GradientSum& gradient() { return gradient_; }

 private:
  uint64_t StreamRowOf(const Batch& batch, size_t i) const;
  void Compute(const Batch& batch, size_t trained_begin, std::span<const float> weights,
               const Moments& moments, const EmbeddingBatch& embeddings, Result& result);
  void Learn(const Batch& batch, size_t trained_begin, std::span<const float> weights,
             const Moments& moments, const EmbeddingBatch& embeddings, Result& result);
  // Counts the targets of the new rows, or where the model uses them their classes, and returns
  // what is known of targets before them, at least that of the first row.
  TargetMoments CountTargets(const Batch& batch, const Moments& moments, Result& result) const;
  // Estimates that are relative to the targets of the batch's own rows become predictions, which
  // are relative to those before; counts their errors.
  void TestByTargetsBefore(const Batch& batch, const TargetMoments& own,
                           const TargetMoments& before, Result& result);
  // Of a job with balanced classes: the weights of the rows after `moments`; else null.
  std::unique_ptr<ClassBalance> BalanceAfter(const Moments& moments) const;
  void Count(const Batch& batch, size_t trained_begin, Result& result) const;

  const WorkerOptions options_;
  const Model& model_;
  GradientSum gradient_;
  std::vector<float> scores_;  // of the batch's rows
};

}  // namespace millrace
