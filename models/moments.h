// Running mean and variance of the numeric columns, the scaling that follows from them, and the
// rows of each class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/row.h"

namespace millrace {

// Of a regression: what its estimates are relative to, and how far they have been off. Means of all
// rows so far; merged like Moments, which they are a part of.
struct TargetMoments {
  // As far from 0 as a target may be (features/feature_encoder.h), and some more.
  static constexpr double kLimit = 1e20;

  double count = 0;  // targets
  double mean = 0;
  double m2 = 0;          // sum of squared distances from the mean
  double errors = 0;      // predictions that were compared with their targets
  double mean_error = 0;  // the absolute one
  double least = 0;       // the range of the targets, if there are any
  double most = 0;
  // Of the predictions that left the range of the targets before: for each one up to 1 if at the
  // range's end it would have been better, and down to -1 if it would have been worse; of a
  // prediction n rows ago times (1 - 1 / kMemory)^n.
  double range_votes = 0;
  static constexpr double kMemory = 2000;

  bool known() const { return count > 0; }
  bool keeps_to_range() const { return range_votes > 0; }
  // Whose estimates are shown as they are.
  TargetMoments WithoutVotes() const {
    TargetMoments copy = *this;
    copy.range_votes = 0;
    return copy;
  }
  // An estimate as it is shown: at the end of the range, if it has left it, as long as that is
  // better.
  double Shown(double estimate) const;
  // At the end of the range, if it has left it; what is not a number stays none.
  double InRange(double estimate) const;
  // The population's; 1 as long as targets have been equal.
  double deviation() const;
  void Add(float target);
  // How good a prediction was; by the targets before it.
  struct Outcome {
    float error = 0;  // as it was shown; what is not a number counts as kLimit
    double vote = 0;
  };
  Outcome OutcomeOf(double estimate, float target) const;
  void AddOutcome(const Outcome& outcome);
  void Merge(const TargetMoments& other);
  bool IsValid() const;
  bool operator==(const TargetMoments&) const = default;
};

// Count, mean and sum of squared distances from the mean of each numeric column; missing values
// (NaN) are not counted. Welford's update and Chan, Golub and LeVeque's merge (1979). The state
// that makes unscaled numbers trainable: it belongs to shard 0 and travels with the weights.
struct Moments {
  // Values beyond +-kLimit, infinities too, are counted as +-kLimit: the squares of 10^24 of them
  // still add up to a finite number, and every column that means something lies far inside.
  static constexpr double kLimit = 1e140;

  std::vector<double> count;
  std::vector<double> mean;
  std::vector<double> m2;
  TargetMoments target;  // nothing, but in a regression
  // How many rows there were of each class, where they are weighed by it (ClassBalance) or scores
  // begin at it (Model::uses_targets); may be empty.
  std::vector<uint64_t> class_rows{};
  static constexpr uint64_t kMostClassRows = uint64_t{1} << 56;
  // How often the stream has changed, where a job acts on it: what follows from the sums of all
  // rows, and travels with them.
  uint64_t drifts = 0;
  static constexpr uint64_t kMostDrifts = uint64_t{1} << 40;
  // The last change of the number of workers that the job's workers are told of, and how many there
  // are by it; 0: none, and as at the beginning.
  uint64_t resize = 0;
  uint32_t workers = 0;

  Moments() = default;
  explicit Moments(size_t columns) : count(columns), mean(columns), m2(columns) {}

  size_t columns() const { return count.size(); }
  // The numeric columns only. REQUIRES row.numeric.size() == columns()
  void Add(const Row& row);
  // REQUIRES the same number of columns, or none in `other`. `class_rows` may be of different
  // sizes: what is missing is 0.
  void Merge(const Moments& other);
  // Whether Add and Merge can have produced it: for moments that were received in a message.
  bool IsValid() const;
  bool operator==(const Moments&) const = default;
};

// Maps a numeric column's value to a feature: (x - mean) / deviation, clipped to +-kClip, so that
// no unit and no outlier can make a step explode; 0 where the value is missing or the column has
// been constant (its deviation is 0 or lost in the rounding of its mean). The deviation is the
// population's, as in scikit-learn's StandardScaler; moments that are not IsValid() crash nothing,
// such columns count as constant. Identity: the value itself (missing: 0;
// beyond the range of float: the largest float). A feature is finite, whatever the value.
class Scaler {
 public:
  static constexpr float kClip = 5.0f;
  static Scaler Identity(size_t columns);
  explicit Scaler(const Moments& moments);
  // Scales by other moments from here on. REQUIRES: not an identity; moments of as many columns.
  void ScaleBy(const Moments& moments);

  size_t columns() const { return offset_.size(); }
  // Of a regression: known before the rows that are scaled. Nothing, unless it is set.
  const TargetMoments& target() const { return target_; }
  void set_target(const TargetMoments& target) { target_ = target; }
  // Moments::class_rows of the rows before those that are scaled. Nothing, unless it is set.
  const std::vector<uint64_t>& class_rows() const { return class_rows_; }
  void set_class_rows(std::vector<uint64_t> rows) { class_rows_ = std::move(rows); }
  float Scale(size_t column, double value) const;
  // All columns of a row at once. REQUIRES numeric.size() == features.size() == columns()
  void ScaleRow(std::span<const double> numeric, std::span<float> features) const;

 private:
  Scaler() = default;
  std::vector<double> offset_;
  std::vector<double> factor_;  // 0 for a constant column
  double limit_ = 0;            // of a feature's absolute value
  TargetMoments target_;
  std::vector<uint64_t> class_rows_;
};

}  // namespace millrace
