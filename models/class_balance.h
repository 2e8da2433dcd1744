// Weights of rows by which each class counts alike, however rare it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/moments.h"

namespace millrace {

// A row of class k weighs n / (K n_k): n rows so far, n_k of them of class k, K classes; as
// scikit-learn's class_weight="balanced" has it of all rows. Each n_k counts one row more, and no
// weight is above kMost, so that the first rows of a class move nothing too far. All weights are 1
// before the first row. Not thread-safe.
class ClassBalance {
 public:
  static constexpr double kMost = 100;

  // Of the rows so far, by Moments::class_rows. REQUIRES classes >= 2, and
  // before.class_rows.size() <= classes.
  ClassBalance(const Moments& before, size_t classes);

  void Add(uint32_t label) {
    ++added_.at(label);
    ++total_;
  }
  float WeightOf(uint32_t label) const;
  std::vector<float> Weights() const;  // of each class

  // The rows of each class that were added.
  const std::vector<uint64_t>& added() const { return added_; }

 private:
  std::vector<uint64_t> before_;
  std::vector<uint64_t> added_;
  uint64_t total_ = 0;
};

}  // namespace millrace
