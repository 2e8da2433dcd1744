// How much of a worker's change counts, when other workers change the same weights without knowing
// of it. docs/learning.md ("Many workers") has the formulas, and why they are so. Internal to
// models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/online_learner.h"

namespace millrace {

// The rows that a worker has learnt from, in their order, and what each has done.
class LearntRows {
 public:
  // The terms' blocks are among the working blocks that begin there. `columns`: of a block.
  LearntRows(const float* blocks, size_t columns) : blocks_(blocks), columns_(columns) {}

  // What OnlineLearner::Learn was given, and its steps().
  void Add(std::span<const OnlineLearner::Term> terms, std::span<const OnlineLearner::Step> steps);

  struct Feature {
    size_t block = 0;  // where it begins
    float x = 0;
  };
  struct LearntRow {
    std::span<const Feature> features;
    std::span<const OnlineLearner::Step> steps;  // columns()
  };
  size_t columns() const { return columns_; }
  size_t size() const { return ends_.size(); }
  LearntRow operator[](size_t row) const;

 private:
  const float* const blocks_;
  const size_t columns_;
  std::vector<Feature> features_;
  std::vector<OnlineLearner::Step> steps_;
  std::vector<size_t> ends_;  // of each row in features_
};

// Makes of `change`, by which the rows have brought the working blocks to `last`, what the worker
// sends (of the weights; sums of curvature stay as they are). The first `numeric` blocks are of
// numbers, the last one is the bias's, the others are of what a row has or has not. A single worker
// sends its change as it is. `concurrent`, more than one: so many workers, times the updates that
// each may have in flight, make such a change at the same time.
void DampChange(const LearntRows& rows, std::span<const float> last, size_t numeric,
                uint32_t concurrent, std::span<float> change);

}  // namespace millrace
