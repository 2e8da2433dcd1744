// Evaluation on a test set, off the hot path.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/background_worker.h"
#include "base/status.h"
#include "base/types.h"
#include "messages/features.pb.h"
#include "messages/job.pb.h"
#include "models/evaluation.h"
#include "models/mixed_softmax.h"
#include "models/model.h"
#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// Reads a test CSV, of the job's format, with the job's own feature library. Rows that cannot be
// used are counted.
struct TestSet {
  std::vector<Row> rows;
  uint64_t rejected = 0;
  std::string first_reject;  // "line N: reason"
};
StatusOr<TestSet> ReadTestSet(const std::string& path, const CsvFormat& format,
                              const FeatureSpec& spec);

struct EvaluationInput {
  Clock clock = 0;
  std::vector<float> parameters;
  std::vector<float> rows;  // of the embedding ids of the test set, in the order of ids()
  Moments moments;
  bool last = false;
};

// Evaluates on a thread of its own. A newer input replaces one that waits, so that a slow
// evaluation delays nobody. Offer and Finish are for the owner's thread.
class Evaluator {
 public:
  using Report = std::function<void(const EvaluationInput&, const EvaluationFigures&)>;
  // `model` outlives the evaluator. `report` is called on the evaluator's thread.
  // `classes` 0: a regression. `scale`: numeric columns are scaled by the input's moments.
  // (An online learner is evaluated by the weights of all its racers together, as it is exported:
  // so an exported model has the figures of the evaluation.)
  Evaluator(TestSet test_set, const Model& model, size_t classes, bool scale, Report report);

  // The embedding ids of the test set, ascending, distinct.
  const std::vector<EmbeddingId>& ids() const { return ids_; }
  // True when all offered inputs have been evaluated, so that the next one can be copied.
  bool idle() const { return worker_.idle(); }
  void Offer(EvaluationInput input);
  // Returns when everything offered has been evaluated or replaced.
  void Finish() { worker_.WaitUntilIdle(); }

 private:
  EvaluationFigures Evaluate(const EvaluationInput& input) const;

  TestSet test_set_;
  const Model& model_;
  std::optional<MixedSoftmax> mixed_;  // of an online learner
  size_t classes_;
  bool scale_;
  Report report_;
  std::vector<const Row*> views_;
  std::vector<EmbeddingId> ids_;
  BackgroundWorker worker_;  // last: it uses all of the above
};

}  // namespace millrace
