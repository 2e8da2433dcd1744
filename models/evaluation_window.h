// The sums of the newest rows, beside those of all.
#pragma once

#include <cstdint>

#include "models/evaluation.h"

namespace millrace {

// Cuts the tested rows into windows, one after the other, and keeps the last that is full. What it
// holds is a function of the sums that were added, in their order, and of nothing else. Sums are
// not divided: a window has a few rows more than it needs.
class EvaluationWindow {
 public:
  // A window is full when it has a twentieth of all rows so far, but at least kFewestRows, by which
  // an accuracy is known to some 3 %, and at most kMostRows, so that the figures of a stream that
  // never ends are those of lately.
  static constexpr uint64_t kFewestRows = 1000;
  static constexpr uint64_t kMostRows = 100'000;
  static constexpr uint64_t kParts = 20;

  // `fewest_rows` may be smaller for tests.
  explicit EvaluationWindow(uint64_t fewest_rows = kFewestRows) : fewest_rows_(fewest_rows) {}

  // Adds the sums of the next rows; `all_rows`: how many there are with them.
  void Add(const EvaluationSums& sums, uint64_t all_rows);

  // The last full window; no rows: there has been none.
  const EvaluationSums& last() const { return last_; }
  // `all_rows` as it was when that window became full; 0: there has been none.
  uint64_t last_end() const { return last_end_; }
  // What has been added since.
  const EvaluationSums& open() const { return open_; }

  void Restore(EvaluationSums last, uint64_t last_end, EvaluationSums open);
  bool operator==(const EvaluationWindow&) const = default;

 private:
  uint64_t fewest_rows_;
  EvaluationSums last_;
  uint64_t last_end_ = 0;
  EvaluationSums open_;
};

}  // namespace millrace
