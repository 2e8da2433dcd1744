#include "tests/simulation/plain_newton.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace millrace::simulation {

size_t PlainNewton::SumsFor(size_t numbers, size_t columns) {
  if (numbers == 0 || numbers > 4096) return 0;
  size_t sums = 0;
  for (size_t i = 0; i <= numbers; ++i) sums += (i + 1) + 1;  // a row of A, and a number of b
  return columns * sums <= 4096 ? columns * sums : 0;
}

PlainNewton::PlainNewton(size_t numbers, size_t columns, double ridge, std::span<const float> sums)
    : size_(numbers + 1) {
  const size_t each = sums.size() / columns;
  for (size_t c = 0; c < columns; ++c) {
    columns_.push_back(Read(ridge, sums.subspan(c * each, each)));
  }
}

PlainNewton::Column PlainNewton::Read(double ridge, std::span<const float> sums) const {
  Column column;
  column.first.assign(sums.begin(), sums.end());
  column.added.resize(sums.size());
  column.a.assign(size_, std::vector<double>(size_));
  size_t next = 0;
  for (size_t i = 0; i < size_; ++i) {
    for (size_t j = 0; j <= i; ++j) column.a[i][j] = column.a[j][i] = column.first[next++];
  }
  column.b.assign(column.first.begin() + static_cast<ptrdiff_t>(next), column.first.end());
  for (size_t i = 0; i < size_; ++i) column.a[i][i] = std::max(column.a[i][i], 0.0);
  const Matrix sum = column.a;
  for (int times = 0; times < 42; ++times, ridge *= 10) {
    column.a = sum;
    for (size_t i = 0; i < size_; ++i) column.a[i][i] += ridge;
    if (IsOfRows(column.a)) break;
  }
  column.weights = Solve(column.a, column.b);
  return column;
}

// Sums that have been rounded on their way need not be those of any rows. Then what is left of a
// number's curvature, when the part that the numbers before it have is taken away, may be nothing.
bool PlainNewton::IsOfRows(Matrix a) {
  for (size_t j = 0; j < a.size(); ++j) {
    if (!(a[j][j] > 0)) return false;
    const double most = a[j][j];
    for (size_t k = 0; k < j; ++k) {
      const double factor = a[j][k] / a[k][k];
      for (size_t i = k; i < a.size(); ++i) a[j][i] -= factor * a[k][i];
    }
    if (a[j][j] < 1e-5 * most) return false;
  }
  return true;
}

// Gauss and Jordan's elimination, by the largest pivots.
std::vector<double> PlainNewton::Solve(Matrix a, std::vector<double> b) {
  for (size_t j = 0; j < b.size(); ++j) {
    size_t best = j;
    for (size_t i = j; i < b.size(); ++i) {
      if (std::abs(a[i][j]) > std::abs(a[best][j])) best = i;
    }
    std::swap(a[j], a[best]);
    std::swap(b[j], b[best]);
    for (size_t i = 0; i < b.size(); ++i) {
      if (i == j) continue;
      const double factor = a[i][j] / a[j][j];
      for (size_t k = j; k < b.size(); ++k) a[i][k] -= factor * a[j][k];
      b[i] -= factor * b[j];
    }
  }
  for (size_t j = 0; j < b.size(); ++j) b[j] /= a[j][j];
  return b;
}

double PlainNewton::ScoreOf(size_t column, const std::vector<double>& row) const {
  double score = 0;
  for (size_t i = 0; i < size_; ++i) score += columns_[column].weights[i] * row[i];
  return score;
}

double PlainNewton::SizeOf(size_t column, const std::vector<double>& row) const {
  double size = 0;
  for (size_t i = 0; i < size_; ++i) size += std::abs(columns_[column].weights[i] * row[i]);
  return size;
}

void PlainNewton::Learn(size_t column, const std::vector<double>& row, Rounded curvature,
                        Rounded pull) {
  Column& of = columns_[column];
  const double score = ScoreOf(column, row);
  size_t next = 0;
  for (size_t i = 0; i < size_; ++i) {
    for (size_t j = 0; j < size_; ++j) {
      const double square = row[i] * row[j];
      of.a[i][j] += curvature.value * square;
      if (j > i) continue;
      of.added[next].value += curvature.value * square;
      of.added[next++].lost += curvature.lost * std::abs(square);
    }
  }
  for (size_t i = 0; i < size_; ++i, ++next) {
    const double more = (curvature.value * score + pull.value) * row[i];
    of.b[i] += more;
    of.added[next].value += more;
    of.added[next].lost += (curvature.lost * std::abs(score) + pull.lost) * std::abs(row[i]);
  }
  of.weights = Solve(of.a, of.b);
}

std::string PlainNewton::Compare(std::span<const float> change) const {
  size_t next = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    for (size_t i = 0; i < columns_[c].added.size(); ++i) {
      const auto sent = static_cast<double>(change[next++]);
      const auto& [own, lost] = columns_[c].added[i];
      if (std::abs(sent - own) <= 2e-3 * std::abs(own) + 2e-5 + lost) continue;
      return "column " + std::to_string(c) + ", sum " + std::to_string(i) +
             " of the numeric columns: changed by " + std::to_string(sent) + " instead of " +
             std::to_string(own);
    }
  }
  return "";
}

}  // namespace millrace::simulation
