// The racer that knows how the numeric columns go together (models/newton_racer.h) once more, by
// other code: the weights are solved anew after each row, from the sums and from nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace millrace::simulation {

class PlainNewton {
 public:
  // How many sums there are of so many numbers and columns of the model; 0: there is no such racer.
  static size_t SumsFor(size_t numbers, size_t columns);

  // The lower triangle of A row by row, then b; of each column after the other. SumsFor(...) > 0.
  PlainNewton(size_t numbers, size_t columns, double ridge, std::span<const float> sums);

  // A row is its numbers, which are scaled, and a 1.
  double ScoreOf(size_t column, const std::vector<double>& row) const;
  // As if all parts of the score had the same sign: of this size floats lose a part.
  double SizeOf(size_t column, const std::vector<double>& row) const;

  // A number, and how far one in floats may be off.
  struct Rounded {
    double value = 0;
    double lost = 0;
  };
  void Learn(size_t column, const std::vector<double>& row, Rounded curvature, Rounded pull);

  // Empty, or where `change` is another than that of the sums.
  std::string Compare(std::span<const float> change) const;

 private:
  using Matrix = std::vector<std::vector<double>>;

  struct Column {
    Matrix a;               // with the ridge
    std::vector<double> b;  // beside it
    std::vector<double> weights;
    std::vector<double> first;  // the sums before the batch
    std::vector<Rounded> added;
  };
  Column Read(double ridge, std::span<const float> sums) const;
  static bool IsOfRows(Matrix a);
  static std::vector<double> Solve(Matrix a, std::vector<double> b);

  const size_t size_;  // the numbers and the bias
  std::vector<Column> columns_;
};

}  // namespace millrace::simulation
