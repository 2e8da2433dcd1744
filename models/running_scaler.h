// Scales rows one by one, each by the rows before it.
#pragma once

#include <span>

#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// A row's features never depend on the row itself, so that what is tested with them is a
// prediction. Not thread-safe.
class RunningScaler {
 public:
  // `before`: of the rows so far. Without `scales` values are used as they are.
  RunningScaler(const Moments& before, bool scales);

  size_t columns() const { return seen_.columns(); }
  // As Scaler::ScaleRow. REQUIRES: numeric.size() == features.size() == columns().
  void ScaleRow(std::span<const double> numeric, std::span<float> features);
  // Counts the row for those after it.
  void Add(const Row& row);

  // Of a regression: counts the row's target, and how good the estimate was. `estimate`: as
  // predicted, before it was kept to the range; not counted if no target was known.
  void AddTarget(const Row& row, float estimate);
  // Of all rows so far.
  const TargetMoments& target() const { return seen_.target; }

  // Of the rows that were added.
  const Moments& added() const { return added_; }

 private:
  const bool scales_;
  Moments seen_;
  Moments added_;
  Scaler scaler_;
  bool is_current_ = true;  // scaler_ is that of seen_
};

}  // namespace millrace
