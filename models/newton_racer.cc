#include "models/newton_racer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace millrace {
namespace {

// 88 numbers of one column, or 26 of ten: as many floats as 682 weights of one column have.
constexpr size_t kMostSums = 4096;
// Sums that have been rounded (floats of many additions, or 16 bits on their way) need not be those
// of any rows. What is left of a number's curvature beside the other numbers is at least this part
// of it.
constexpr double kKnownTo = 1e-5;
// Beyond any number that may be asked for, and its scores are still floats.
constexpr double kLargestWeight = 1e20;
// Beside any sum of floats the ridge is then large.
constexpr int kMostTimesLarger = 42;

// Makes of the lower triangle of a symmetric matrix, `size` x `size` by rows, its Cholesky factor.
// False: less than kKnownTo of a pivot is left.
bool Factorise(size_t size, std::vector<double>& matrix) {
  for (size_t j = 0; j < size; ++j) {
    double* const row_j = matrix.data() + j * size;
    double pivot = row_j[j];
    for (size_t k = 0; k < j; ++k) pivot -= row_j[k] * row_j[k];
    if (!(pivot >= kKnownTo * row_j[j])) return false;
    row_j[j] = std::sqrt(pivot);
    for (size_t i = j + 1; i < size; ++i) {
      double* const row_i = matrix.data() + i * size;
      double sum = row_i[j];
      for (size_t k = 0; k < j; ++k) sum -= row_i[k] * row_j[k];
      row_i[j] = sum / row_j[j];
    }
  }
  return true;
}

// The inverse of factor x factor', all of it: the sum of the squares of the factor's inverse's
// rows.
void Invert(size_t size, const std::vector<double>& factor, double* inverse) {
  std::vector<double> lower(size * size);  // the factor's inverse
  for (size_t i = 0; i < size; ++i) {
    double* const row = lower.data() + i * size;
    row[i] = 1;
    for (size_t k = 0; k < i; ++k) {
      const double by = factor[i * size + k];
      const double* const above = lower.data() + k * size;
      for (size_t j = 0; j <= k; ++j) row[j] -= by * above[j];
    }
    for (size_t j = 0; j <= i; ++j) row[j] /= factor[i * size + i];
  }
  std::fill_n(inverse, size * size, 0.0);
  for (size_t k = 0; k < size; ++k) {
    const double* const row = lower.data() + k * size;
    for (size_t i = 0; i <= k; ++i) {
      for (size_t j = 0; j <= k; ++j) inverse[i * size + j] += row[i] * row[j];
    }
  }
}

}  // namespace

size_t NewtonRacer::SumsFor(size_t numbers, size_t columns) {
  const size_t size = numbers + 1;
  if (numbers == 0 || size > kMostSums) return 0;
  const size_t sums = columns * (size * (size + 1) / 2 + size);
  return sums <= kMostSums ? sums : 0;
}

NewtonRacer::NewtonRacer(size_t numbers, size_t columns, float ridge, std::span<const float> sums)
    : size_(numbers + 1),
      columns_(columns),
      ridge_(static_cast<double>(ridge)),
      row_(size_),
      change_(sums.size()),
      inverses_(columns * size_ * size_),
      weights_(columns * size_),
      turned_(size_) {
  MILLRACE_CHECK(!sums.empty() && sums.size() == SumsFor(numbers, columns));
  row_.back() = 1;
  for (size_t c = 0; c < columns; ++c) Solve(c, sums.subspan(c * SumsOfColumn(), SumsOfColumn()));
}

// The ridge grows until the sums are those of some rows.
std::vector<double> NewtonRacer::FactorOf(std::span<const float> sums) const {
  double ridge = ridge_;
  for (int times = 0; times < kMostTimesLarger; ++times, ridge *= 10) {
    std::vector<double> matrix(size_ * size_);
    size_t at = 0;
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j <= i; ++j) matrix[i * size_ + j] = static_cast<double>(sums[at++]);
      double& diagonal = matrix[i * size_ + i];
      // (Below 0 is none: who wrote the job's topics may have made it up.)
      diagonal = std::max(diagonal, 0.0) + ridge;
    }
    if (Factorise(size_, matrix)) return matrix;
  }
  return {};
}

void NewtonRacer::Solve(size_t column, std::span<const float> sums) {
  const std::vector<double> factor = FactorOf(sums);
  if (factor.empty()) return;  // sums that are none: it loses the race, and harms nobody
  double* const inverse = InverseOf(column);
  Invert(size_, factor, inverse);
  double* const weights = weights_.data() + column * size_;
  const std::span<const float> b = sums.last(size_);
  for (size_t k = 0; k < size_; ++k) {
    for (size_t i = 0; i < size_; ++i) {
      weights[i] += inverse[k * size_ + i] * static_cast<double>(b[k]);
    }
  }
  const auto is_sane = [](double weight) { return std::abs(weight) <= kLargestWeight; };
  if (std::all_of(weights, weights + size_, is_sane)) return;
  std::fill_n(weights, size_, 0.0);
  std::fill_n(inverse, size_ * size_, 0.0);
}

void NewtonRacer::SetRow(std::span<const float> numbers) {
  MILLRACE_CHECK(numbers.size() + 1 == size_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    row_[i] = static_cast<double>(
        std::clamp(numbers[i], -OnlineRace::kLargestFeature, OnlineRace::kLargestFeature));
  }
}

float NewtonRacer::Score(size_t column) const {
  double score = 0;
  for (size_t i = 0; i < size_; ++i) score += weights_[column * size_ + i] * row_[i];
  return static_cast<float>(score);
}

void NewtonRacer::Learn(std::span<const OnlineLearner::Step> steps) {
  MILLRACE_CHECK(steps.size() == columns_);
  for (size_t c = 0; c < columns_; ++c) LearnColumn(c, steps[c]);
}

// The inverse of a matrix to which a row's square is added is that of Sherman and Morrison (1950).
void NewtonRacer::LearnColumn(size_t column, const OnlineLearner::Step& step) {
  const auto curvature = static_cast<double>(step.newton_curvature);
  const auto pull = static_cast<double>(step.newton_pull);
  double* const inverse = InverseOf(column);
  double* const weights = weights_.data() + column * size_;
  std::ranges::fill(turned_, 0.0);
  double score = 0;
  for (size_t k = 0; k < size_; ++k) {
    score += weights[k] * row_[k];
    for (size_t i = 0; i < size_; ++i) turned_[i] += inverse[k * size_ + i] * row_[k];
  }
  double reach = 0;
  for (size_t i = 0; i < size_; ++i) reach += turned_[i] * row_[i];
  const double shorter =
      1 / (1 + curvature * std::max(reach, 0.0));  // (rounding may take it below)
  for (size_t k = 0; k < size_; ++k) {
    weights[k] += turned_[k] * shorter * pull;
    const double by = turned_[k] * shorter * curvature;
    for (size_t i = 0; i < size_; ++i) inverse[k * size_ + i] -= by * turned_[i];
  }
  double* sum = change_.data() + column * SumsOfColumn();
  for (size_t k = 0; k < size_; ++k) {
    const double by = curvature * row_[k];
    for (size_t i = 0; i <= k; ++i) sum[i] += by * row_[i];
    sum += k + 1;
  }
  for (size_t i = 0; i < size_; ++i) sum[i] += row_[i] * (curvature * score + pull);
}

void NewtonRacer::AddChange(std::span<float> sums) const {
  MILLRACE_CHECK(sums.size() >= change_.size());
  for (size_t i = 0; i < change_.size(); ++i) sums[i] += static_cast<float>(change_[i]);
}

std::span<const double> NewtonRacer::Weights(size_t column) const {
  return std::span(weights_).subspan(column * size_, size_);
}

}  // namespace millrace
