#include "models/moments.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "models/portable_math.h"

namespace millrace {
namespace {

// Shorter distances than this part of the mean are the mean's own rounding.
constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();

// Written with comparisons that become vector instructions; a NaN, which fails them all, is what a
// missing value and infinity times 0 give, and ends as 0.
inline float ScaleValue(double value, double offset, double factor, double limit) {
  double scaled = (value - offset) * factor;
  scaled = scaled > limit ? limit : scaled;
  scaled = scaled < -limit ? -limit : scaled;
  return static_cast<float>(scaled == scaled ? scaled : 0.0);
}

bool IsFiniteAndNotNegative(double value) { return std::isfinite(value) && value >= 0; }

// Welford (1962), for one column.
void AddToColumn(double value, double& count, double& mean, double& m2) {
  const double distance = value - mean;
  count += 1;
  mean += distance / count;
  m2 += distance * (value - mean);
}

// The same, without a branch, so that it becomes vector instructions; what is missing (NaN) is not
// counted.
inline void AddIfKnown(double value, double& count, double& mean, double& m2) {
  double new_count = count;
  double new_mean = mean;
  double new_m2 = m2;
  AddToColumn(value, new_count, new_mean, new_m2);
  const bool known = value == value;
  count = known ? new_count : count;
  mean = known ? new_mean : mean;
  m2 = known ? new_m2 : m2;
}

// Chan, Golub and LeVeque (1979), for one column.
void MergeColumn(double other_count, double other_mean, double other_m2, double& count,
                 double& mean, double& m2) {
  if (other_count == 0) return;
  const double total = count + other_count;
  const double distance = other_mean - mean;
  const double share = other_count / total;
  mean += distance * share;
  m2 += other_m2 + distance * distance * count * share;
  count = total;
}

}  // namespace

double TargetMoments::deviation() const {
  const double deviation = std::sqrt(m2 / count);  // NaN without targets
  return deviation > kRounding * std::abs(mean) ? deviation : 1;
}

void TargetMoments::Add(float target) {
  MILLRACE_CHECK(std::isfinite(target));
  const auto value = static_cast<double>(target);
  least = known() ? std::min(least, value) : value;
  most = known() ? std::max(most, value) : value;
  AddToColumn(value, count, mean, m2);
}

double TargetMoments::Shown(double estimate) const {
  return keeps_to_range() ? InRange(estimate) : estimate;
}

// (Not std::clamp: who wrote the job's topics may have made the range up. std::min and std::max
// return their first argument where one is not a number.)
double TargetMoments::InRange(double estimate) const {
  return std::max(std::min(estimate, most), least);
}

TargetMoments::Outcome TargetMoments::OutcomeOf(double estimate, float target) const {
  MILLRACE_CHECK(known());
  const auto size_of = [target](double said) {
    return std::min(std::abs(said - static_cast<double>(target)), kLimit);
  };
  const double free = size_of(estimate);
  const double kept = size_of(InRange(estimate));
  const double squares = free * free + kept * kept;
  return {.error = static_cast<float>(Shown(estimate)) - target,
          .vote = squares > 0 ? (free * free - kept * kept) / squares : 0};
}

void TargetMoments::AddOutcome(const Outcome& outcome) {
  const double size = std::abs(static_cast<double>(outcome.error));
  errors += 1;
  mean_error += ((size <= kLimit ? size : kLimit) - mean_error) / errors;
  range_votes = range_votes * (1 - 1 / kMemory) + outcome.vote;
}

void TargetMoments::Merge(const TargetMoments& other) {
  if (other.known()) {
    least = known() ? std::min(least, other.least) : other.least;
    most = known() ? std::max(most, other.most) : other.most;
  }
  const auto predictions = static_cast<uint64_t>(std::clamp(other.errors, 0.0, 1e15));
  range_votes = range_votes * Power(1 - 1 / kMemory, predictions) + other.range_votes;
  MergeColumn(other.count, other.mean, other.m2, count, mean, m2);
  double none = 0;
  MergeColumn(other.errors, other.mean_error, 0, errors, mean_error, none);
}

bool TargetMoments::IsValid() const {
  return IsFiniteAndNotNegative(count) && IsFiniteAndNotNegative(m2) &&
         IsFiniteAndNotNegative(errors) && std::abs(mean) <= kLimit * (1 + kRounding) &&
         mean_error >= 0 && mean_error <= kLimit * (1 + kRounding) && least <= most &&
         least >= -kLimit && most <= kLimit && std::abs(range_votes) <= errors * (1 + kRounding);
}

void Moments::Add(const Row& row) {
  MILLRACE_CHECK(row.numeric.size() == columns());
  const double* __restrict values = row.numeric.data();
  double* __restrict counts = count.data();
  double* __restrict means = mean.data();
  double* __restrict squares = m2.data();
  for (size_t i = 0, size = columns(); i < size; ++i) {
    double value = values[i];
    value = value < -kLimit ? -kLimit : value;
    value = value > kLimit ? kLimit : value;
    AddIfKnown(value, counts[i], means[i], squares[i]);
  }
}

void Moments::Merge(const Moments& other) {
  MILLRACE_CHECK(other.columns() == columns() || other.columns() == 0);
  class_rows.resize(std::max(class_rows.size(), other.class_rows.size()));
  for (size_t k = 0; k < other.class_rows.size(); ++k) class_rows[k] += other.class_rows[k];
  for (size_t i = 0; i < other.columns(); ++i) {
    MergeColumn(other.count[i], other.mean[i], other.m2[i], count[i], mean[i], m2[i]);
  }
  target.Merge(other.target);
  drifts += other.drifts;
}

bool Moments::IsValid() const {
  if (!target.IsValid() || drifts > kMostDrifts) return false;
  if (mean.size() != columns() || m2.size() != columns()) return false;
  const auto is_too_large = [](uint64_t rows) { return rows > kMostClassRows; };
  if (std::ranges::any_of(class_rows, is_too_large)) return false;
  for (size_t i = 0; i < columns(); ++i) {
    const bool is_mean_possible = std::abs(mean[i]) <= kLimit * (1 + kRounding);
    if (!is_mean_possible || !IsFiniteAndNotNegative(count[i]) || !IsFiniteAndNotNegative(m2[i])) {
      return false;
    }
  }
  return true;
}

Scaler Scaler::Identity(size_t columns) {
  Scaler scaler;
  scaler.offset_.assign(columns, 0.0);
  scaler.factor_.assign(columns, 1.0);
  scaler.limit_ = std::numeric_limits<float>::max();
  return scaler;
}

Scaler::Scaler(const Moments& moments)
    : offset_(moments.columns()), factor_(moments.columns()), limit_(kClip) {
  ScaleBy(moments);
}

// (Comparisons that become vector instructions; all of them fail for NaN.)
void Scaler::ScaleBy(const Moments& moments) {
  MILLRACE_CHECK(moments.columns() == columns() && limit_ == static_cast<double>(kClip));
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double* __restrict counts = moments.count.data();
  const double* __restrict means = moments.mean.data();
  const double* __restrict squares = moments.m2.data();
  double* __restrict offset = offset_.data();
  double* __restrict factor = factor_.data();
  for (size_t i = 0, size = columns(); i < size; ++i) {
    const double deviation = std::sqrt(squares[i] / counts[i]);  // NaN without rows
    const double inverse = 1 / deviation;
    const double mean = means[i];
    const bool differs = deviation > kRounding * std::abs(mean);
    const bool has_inverse = std::abs(inverse) <= kLargest;
    const bool has_mean = std::abs(mean) <= kLargest;
    const bool varies = differs && has_inverse && has_mean;
    offset[i] = varies ? mean : 0.0;
    factor[i] = varies ? inverse : 0.0;
  }
}

float Scaler::Scale(size_t column, double value) const {
  return ScaleValue(value, offset_[column], factor_[column], limit_);
}

void Scaler::ScaleRow(std::span<const double> numeric, std::span<float> features) const {
  MILLRACE_CHECK(numeric.size() == columns() && features.size() == columns());
  const double* __restrict offset = offset_.data();
  const double* __restrict factor = factor_.data();
  const double* __restrict values = numeric.data();
  float* __restrict out = features.data();
  const double limit = limit_;
  for (size_t i = 0; i < numeric.size(); ++i) {
    out[i] = ScaleValue(values[i], offset[i], factor[i], limit);
  }
}

}  // namespace millrace
