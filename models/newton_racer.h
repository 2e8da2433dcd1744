// A racer of the online learner that knows how the numeric columns go together: all their weights
// follow from sums over the rows. docs/learning.md ("Columns that say the same") has the formulas.
// Internal to models/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/online_learner.h"

namespace millrace {

// For each column of the model a matrix A, the curvature of the losses so far in all directions,
// and a vector b; the weights, of the numeric columns and the bias, are (A + ridge)^-1 b. Of a
// regression that is recursive least squares, of classes Newton's method in one pass (as in
// iterated least squares, each row is iterated once). Not thread-safe.
class NewtonRacer {
 public:
  // The lower triangle of A row by row, then b, of each column after the other. All are 0 at first,
  // and of several workers they add up. 0: there is no such racer, since there are no numbers, or
  // so many that it would be slow.
  static size_t SumsFor(size_t numbers, size_t columns);

  // REQUIRES: sums.size() == SumsFor(numbers, columns) > 0. `ridge`: added to A; ten
  // times as much, again and again, where the sums have been rounded so that they are no rows'.
  NewtonRacer(size_t numbers, size_t columns, float ridge, std::span<const float> sums);

  // The row that is tested and learnt from; `numbers` are scaled, and none is missing.
  void SetRow(std::span<const float> numbers);
  float Score(size_t column) const;
  // By what the row has done to each column (OnlineLearner::steps).
  void Learn(std::span<const OnlineLearner::Step> steps);

  // Adds what Learn has added to the sums.
  void AddChange(std::span<float> sums) const;
  // The weights of a column: of the numbers, then of the bias.
  std::span<const double> Weights(size_t column) const;

 private:
  size_t SumsOfColumn() const { return size_ * (size_ + 1) / 2 + size_; }
  double* InverseOf(size_t column) { return inverses_.data() + column * size_ * size_; }
  // Of A and the ridge; empty: they are no rows' sums.
  std::vector<double> FactorOf(std::span<const float> sums) const;
  void Solve(size_t column, std::span<const float> sums);
  void LearnColumn(size_t column, const OnlineLearner::Step& step);

  const size_t size_;  // the numbers and the bias
  const size_t columns_;
  const double ridge_;
  std::vector<double> row_;
  std::vector<double> change_;    // as the sums
  std::vector<double> inverses_;  // columns: (A + ridge)^-1, all of it
  std::vector<double> weights_;   // columns x size_
  std::vector<double> turned_;    // (A + ridge)^-1 of the row
};

}  // namespace millrace
