// A model that learns row by row in this process: what a job of one worker and `--update online`
// learns of the same rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/types.h"
#include "features/feature_encoder.h"
#include "messages/exported_model.pb.h"
#include "messages/features.pb.h"
#include "messages/learner.pb.h"
#include "messages/training.pb.h"
#include "models/evaluation.h"
#include "models/gradient_sum.h"
#include "models/moments.h"
#include "models/online_softmax.h"
#include "python/src/cell_table.h"

namespace millrace {

// Each row is a batch, so it makes no difference how rows are cut into calls: the bytes are those
// of a job with one worker and `--batch-rows 1`. Other batches only round otherwise.
//
// Thread-safe: calls wait for one another. Needs no lock of the interpreter.
class OnlineSession {
 public:
  // As TopicSource does: columns are found while rows are learnt.
  static constexpr bool kTakesRowsWithoutColumns = true;

  struct Options {
    FeatureSpec
        spec;  // of two classes or more, or a regression; buckets that are not set are chosen
    Training training;  // how scaling and loss are; the update is online, whatever it says
    std::vector<float> class_weights;  // empty, or a factor on the rows of each class
    bool balanced = false;             // all classes count alike (models/class_balance.h)
  };

  // InvalidArgument: columns that make no sense together.
  static StatusOr<std::unique_ptr<OnlineSession>> Create(Options options);

  // What must be known of a row, without the label.
  std::vector<std::string> columns() const;
  size_t score_count() const { return model_->score_count(); }

  // Tests each row, then learns from it. A row's first cell is its label, the others are columns().
  // InvalidArgument with the row, counted from `first_row`, and the column: nothing is learnt then.
  Status Learn(const CellTable& cells, size_t first_row);

  // Appends the scores of rows without labels, as they are before another row is learnt.
  Status Score(const CellTable& cells, size_t first_row, std::vector<float>& scores);

  // Of each row before it was learnt from.
  EvaluationFigures figures();
  uint64_t rows();

  // All of it, as bytes: what is made of them predicts and learns on to the bit as this does.
  // Errors of both: learner_state.h's.
  StatusOr<std::string> ToBytes();
  static StatusOr<std::unique_ptr<OnlineSession>> FromBytes(std::string_view bytes);

  // Writes an exported model. Errors: those of WriteModel.
  Status Save(const std::string& folder, const std::string& name);

 private:
  OnlineSession(const Options& options, FeatureEncoder encoder);

  // All need mutex_.
  void LearnRow(const Row& row);
  void Load(const LearnerState& state);
  void AddUp(const EmbeddingBatch& embeddings, const Moments& moments);
  // The ids of the embedding rows that the rows name, and the rows' values; into ids_ and values_.
  void Gather(RowsView rows);
  std::vector<EmbeddingId> SortedIds() const;
  ModelDescription Describe(const std::string& name) const;

  const FeatureSpec spec_;
  const Training training_;
  const size_t classes_;  // 0: a regression
  const std::vector<float> class_weights_;
  const bool balanced_;
  const std::unique_ptr<OnlineSoftmax> model_;

  std::mutex mutex_;  // guards what follows
  FeatureEncoder encoder_;
  std::vector<float> parameters_;
  absl::flat_hash_map<EmbeddingId, std::vector<float>> embedding_rows_;  // none: zeros
  Moments moments_;
  GradientSum change_;
  EvaluationSums sums_;
  uint64_t rows_ = 0;
  std::vector<EmbeddingId> ids_;  // scratch
  std::vector<float> values_;
  std::vector<float> gradient_;
  std::vector<float> scores_;
};

}  // namespace millrace
