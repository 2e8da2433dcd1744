// Multinomial logistic regression, or linear regression, that learns row by row
// (models/online_learner.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/class_balance.h"
#include "models/forgetting.h"
#include "models/model.h"
#include "models/newton_racer.h"
#include "models/online_learner.h"
#include "models/row_loss.h"
#include "models/running_scaler.h"

namespace millrace {

// Parameters are blocks of block_size() floats, of OnlineLearner: one for each feature, then the
// bias, then the race (RaceView), then the sums of the numeric columns (NewtonRacer), both filled
// up with zeros to whole blocks. All are zero at first. A wide one keeps the blocks of hashed
// features as embedding rows, whose ids are the features' indices. The same rows give the same
// bytes in both forms. A hashed feature and the value of an id column share a row if the 64 bits of
// its hash are the feature's index.
class OnlineSoftmax final : public Model {
 public:
  struct Shape {
    size_t numeric = 0;
    size_t features = 0;  // numeric and hashed
    size_t classes = 2;   // 0: a regression
    bool wide = false;    // hashed features are embedding rows
    bool ids = false;     // rows have ids, which are features of the value 1 and embedding rows
  };
  // `loss`: of a regression.
  explicit OnlineSoftmax(const Shape& shape, std::vector<float> class_weights = {},
                         const ScoreLoss& loss = {});

  size_t parameter_count() const override;
  size_t block_size() const override { return block_; }
  size_t penalised_end() const override { return 0; }
  size_t score_count() const override { return RaceView::CountsFor(shape_.classes); }
  size_t row_width() const override { return shape_.wide || shape_.ids ? block_ : 0; }
  size_t row_linear_end() const override { return row_width(); }
  void AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const override;
  const OnlineSoftmax* online() const override { return this; }
  const Shape& shape() const { return shape_; }
  OnlineForgetting forgetting() const {
    return {.weights_end = RaceKey(), .newton_begin = NewtonKey()};
  }

  // Tests only, by all racers. REQUIRES: no gradient is wanted.
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

  struct Batch {
    RowsView rows;
    size_t trained_begin = 0;  // rows[trained_begin, trained_end) are learnt from
    size_t trained_end = 0;
    // Rows before it have been learnt from before: they count neither for the scaling of others nor
    // in the race, whose losses are those of rows that nobody has learnt from.
    size_t scaled_begin = 0;
    // Workers whose changes are added up without knowing of each other, this one included.
    uint32_t concurrent = 1;
    // If not null, it weighs each row before it counts it, for the rows after it; the same rows
    // count as for the scaling.
    ClassBalance* balance = nullptr;
  };
  // Goes through the batch row by row on a copy of the parameters: tests each row, then learns from
  // it. Writes the scores (rows x score_count; 0 where no target has been known before), and adds
  // the change of the parameters to `change`
  // and embeddings.gradient. Servers add up the changes of all workers. Returns the loss of the
  // rows that were learnt from. REQUIRES: `embeddings` has every id of the rows.
  BatchLoss Learn(const Batch& batch, RunningScaler& scaler, std::span<const float> parameters,
                  const EmbeddingBatch& embeddings, GradientSum& change,
                  std::span<float> scores) const;

  // The weights by which the racers predict together, of any blocks (embedding rows): from
  // block_size() floats each to score_count().
  std::vector<float> MixBlocks(std::span<const float> parameters,
                               std::span<const float> blocks) const;
  // The dense parameters of the MixedSoftmax of this shape; its embedding rows are MixBlocks'.
  std::vector<float> MixedParameters(std::span<const float> parameters) const;
  // The weights that predict: SoftmaxRegression's, (features + 1) x score_count(); of a regression
  // what is added to the mean of the targets. `rows`: of a wide model, the blocks of all hashed
  // features.
  std::vector<float> PredictingWeights(std::span<const float> parameters,
                                       std::span<const float> rows) const;

 private:
  class Copy;

  std::unique_ptr<OnlineLearner> MakeLearner() const;
  // None, where the sums would be too many.
  std::optional<NewtonRacer> MakeNewton(std::span<const float> parameters) const;
  // With the race as it stands.
  std::unique_ptr<OnlineLearner> LearnerOf(std::span<const float> parameters) const;
  // Of the rates, columns_ for each block; and what scores they are of, score_count() for each.
  std::vector<float> Mix(const OnlineLearner& learner, std::span<const float> blocks) const;
  std::vector<float> OfScores(std::vector<float> weights) const;
  // `changes`: of the copy's working blocks, one after the other.
  void AddBlockChanges(const Copy& copy, std::span<const float> changes,
                       const EmbeddingBatch& embeddings, GradientSum& change) const;
  void AddNewtonChange(const NewtonRacer& newton, GradientSum& change) const;
  // How a copy has changed since the race was `first`, as it counts beside the changes of others.
  // `rows`: how many the copy has counted in the race.
  void AddRaceChange(std::span<const float> first, std::span<const float> last, size_t rows,
                     uint32_t concurrent, GradientSum& change) const;

  size_t BiasKey() const { return (shape_.wide ? shape_.numeric : shape_.features) * block_; }
  size_t RaceKey() const { return BiasKey() + block_; }
  size_t NewtonKey() const;

  const Shape shape_;
  const std::vector<float> class_weights_;
  const ScoreLoss loss_;
  const size_t columns_;
  const size_t block_;
};

}  // namespace millrace
