// Evaluation on a test set, off the hot path.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/features.pb.h"
#include "models/evaluation.h"
#include "models/model.h"
#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// Reads a test CSV with the job's own feature library. Rows that cannot be used are counted.
struct TestSet {
  std::vector<Row> rows;
  uint64_t rejected = 0;
  std::string first_reject;  // "line N: reason"
};
StatusOr<TestSet> ReadTestSet(const std::string& path, const FeatureSpec& spec);

struct EvaluationInput {
  Clock clock = 0;
  std::vector<float> parameters;
  std::vector<float> rows;  // of the embedding ids of the test set, in the order of ids()
  Moments moments;
  bool last = false;
};

// One thread with a mailbox of one: a newer snapshot replaces one that waits, so that a slow
// evaluation delays nobody. Offer and Finish are for the owner's thread.
class Evaluator {
 public:
  using Report = std::function<void(const EvaluationInput&, const EvaluationFigures&)>;
  // `model` outlives the evaluator. `report` is called on the evaluator's thread.
  // `classes` 0: a regression.
  Evaluator(TestSet test_set, const Model& model, size_t classes, bool scale, Report report);
  ~Evaluator();

  // The embedding ids of the test set, ascending, distinct.
  const std::vector<EmbeddingId>& ids() const { return ids_; }
  // True when the last snapshot has been taken: the time to make another copy.
  bool idle() const { return idle_; }
  void Offer(EvaluationInput snapshot);
  // Returns when everything offered has been evaluated or replaced.
  void Finish();

 private:
  void Run();
  EvaluationFigures Evaluate(const EvaluationInput& snapshot) const;

  TestSet test_set_;
  const Model& model_;
  size_t classes_;
  bool scale_;
  Report report_;
  std::vector<const Row*> views_;
  std::vector<EmbeddingId> ids_;
  std::atomic<bool> idle_ = true;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;                     // guarded by mutex_
  bool working_ = false;                    // guarded by mutex_
  std::optional<EvaluationInput> mailbox_;  // guarded by mutex_
  std::thread thread_;                      // last: it uses all of the above
};

}  // namespace millrace
