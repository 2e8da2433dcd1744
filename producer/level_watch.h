// Notices a stream whose labels stay at one level for many rows, and move to another one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/row.h"

namespace millrace {

// Workers that are dealt long turns learn at the same time from rows that are far apart, and each
// is told of the level where the others are (docs/learning.md, "Limits of online learning"). How
// much two rows of the same 32 are alike is the intraclass correlation of their labels (Fisher
// 1925, by the analysis of variance): 1 where all of them are equal and others are not, about 0
// where the order of the rows tells nothing. Of classes it is that of "is of this class", all
// classes together.
class LevelWatch {
 public:
  static constexpr uint64_t kBlock = 32;
  static constexpr uint64_t kRows = 1024;
  static constexpr double kAlike = 0.5;

  // 0 classes: the label is a number.
  explicit LevelWatch(size_t classes) : of_block_(classes > 0 ? classes : 1), sums_(of_block_) {}

  // With the kRows-th row the correlation of the rows until then, if it is above kAlike; else
  // nothing. REQUIRES: a label below `classes`.
  std::optional<double> Observe(const Row& row);

 private:
  void EndBlock();
  double Correlation() const;

  uint64_t rows_ = 0;
  float first_ = 0;  // targets are taken relative to it, so that sums of squares are exact enough
  double squares_ = 0;  // of all values
  double between_ = 0;  // of the blocks' sums, divided by kBlock
  std::vector<double> of_block_;
  std::vector<double> sums_;  // of all blocks
};

}  // namespace millrace
