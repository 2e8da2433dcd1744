#include "models/moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace millrace {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Row NumericRow(std::vector<double> values) {
  return {.label = 0, .numeric = std::move(values), .index = {}, .value = {}};
}

Moments MomentsOf(const std::vector<double>& values) {
  Moments moments(1);
  for (double value : values) moments.Add(NumericRow({value}));
  return moments;
}

void ExpectTwoPassMoments(const Moments& moments, const std::vector<double>& values) {
  long double sum = 0;
  for (double value : values) sum += value;
  const long double mean = sum / static_cast<long double>(values.size());
  long double m2 = 0;
  for (double value : values) m2 += (value - mean) * (value - mean);
  EXPECT_EQ(moments.count[0], static_cast<double>(values.size()));
  EXPECT_NEAR(moments.mean[0], static_cast<double>(mean),
              1e-13 * std::abs(static_cast<double>(mean)));
  EXPECT_NEAR(moments.m2[0], static_cast<double>(m2), 1e-6 * static_cast<double>(m2));
}

// A large mean beside a small spread, where sums of squares would lose every digit.
std::vector<double> Timestamps(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0.0, 2.0);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(1.7e9 + noise(random));
  return values;
}

TEST(Moments, EqualATwoPassComputation) {
  const std::vector<double> values = Timestamps(5000);
  ExpectTwoPassMoments(MomentsOf(values), values);
}

TEST(Moments, MergedInAnyGroupingEqualATwoPassComputation) {
  const std::vector<double> values = Timestamps(3000);
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<Moments> groups(1 + random() % 40, Moments(1));  // some of them stay empty
    for (double value : values) groups[random() % groups.size()].Add(NumericRow({value}));
    while (groups.size() > 1) {
      const size_t into = random() % (groups.size() - 1);
      groups[into].Merge(groups.back());
      groups.pop_back();
    }
    ExpectTwoPassMoments(groups[0], values);
  }
}

TEST(Moments, MergingNothingChangesNothing) {
  const Moments moments = MomentsOf({1.0, 2.0, 4.0});
  Moments left = moments;
  left.Merge(Moments(1));
  EXPECT_EQ(left, moments);
  Moments right(1);
  right.Merge(moments);
  EXPECT_EQ(right, moments);
}

TEST(Moments, MissingValuesAreNotCounted) {
  Moments moments(2);
  moments.Add(NumericRow({1.0, kMissing}));
  moments.Add(NumericRow({kMissing, kMissing}));
  moments.Add(NumericRow({3.0, 5.0}));
  EXPECT_EQ(moments.count, (std::vector<double>{2, 1}));
  EXPECT_EQ(moments.mean, (std::vector<double>{2, 5}));
  EXPECT_EQ(moments.m2, (std::vector<double>{2, 0}));
}

TEST(Moments, HugeAndInfiniteValuesStayFinite) {
  Moments moments = MomentsOf({1e300, -1e300, kInfinity, -kInfinity, 1.7e308, -1.7e308, 3.0});
  for (int i = 0; i < 60; ++i) {
    const Moments half = moments;
    moments.Merge(half);
  }
  EXPECT_TRUE(moments.IsValid());
  const Scaler scaler(moments);
  for (double value : {0.0, 1.0, 1e300, -1e300, kInfinity, -kInfinity}) {
    EXPECT_TRUE(std::isfinite(scaler.Scale(0, value))) << value;
  }
  EXPECT_GT(scaler.Scale(0, 1e300), scaler.Scale(0, -1e300));
}

TEST(Moments, TellWhatCannotBeTheirs) {
  EXPECT_TRUE(MomentsOf({1.0, 2.0}).IsValid());
  for (double poison : {kMissing, kInfinity, -1.0}) {
    Moments moments = MomentsOf({1.0, 2.0});
    moments.count[0] = poison;
    EXPECT_FALSE(moments.IsValid());
    moments = MomentsOf({1.0, 2.0});
    moments.m2[0] = poison;
    EXPECT_FALSE(moments.IsValid());
  }
  Moments moments = MomentsOf({1.0, 2.0});
  moments.mean[0] = kMissing;
  EXPECT_FALSE(moments.IsValid());
  moments.mean.clear();
  EXPECT_FALSE(moments.IsValid());
}

TEST(TargetMoments, MergedInAnyGroupingAreThoseOfAllTargets) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(1e5f, 30);
  TargetMoments whole;
  TargetMoments parts[3];
  std::vector<double> targets;
  for (int i = 0; i < 1000; ++i) {
    const float target = normal(random);
    targets.push_back(static_cast<double>(target));
    TargetMoments& part = parts[random() % 3];
    for (TargetMoments* to : {&whole, &part}) {
      if (i > 0) to->AddOutcome(whole.OutcomeOf(1e5, target));
      to->Add(target);
    }
  }
  TargetMoments merged;
  for (const TargetMoments& part : parts) merged.Merge(part);
  double mean = 0;
  double variance = 0;
  double error = 0;
  for (const double target : targets) mean += target / 1000;
  for (const double target : targets) variance += (target - mean) * (target - mean) / 1000;
  for (size_t i = 1; i < 1000; ++i) error += std::abs(targets[i] - 1e5) / 999;
  for (const TargetMoments& is : {whole, merged}) {
    EXPECT_EQ(is.count, 1000);
    EXPECT_EQ(is.errors, 999);
    EXPECT_NEAR(is.mean, mean, 1e-8);
    EXPECT_NEAR(is.deviation(), std::sqrt(variance), 1e-6);
    EXPECT_NEAR(is.mean_error, error, 1e-6);
    EXPECT_EQ(is.least, std::ranges::min(targets));
    EXPECT_EQ(is.most, std::ranges::max(targets));
  }
}

TEST(TargetMoments, TheUnitIsOneAsLongAsTargetsAreEqual) {
  TargetMoments target;
  EXPECT_FALSE(target.known());
  EXPECT_EQ(target.deviation(), 1);
  for (int i = 0; i < 10; ++i) target.Add(0.1f);
  EXPECT_TRUE(target.known());
  EXPECT_EQ(target.deviation(), 1) << "what varies is the rounding of the mean";
}

TEST(TargetMoments, TellWhatCannotBeTheirs) {
  TargetMoments target;
  target.Add(3);
  target.AddOutcome(target.OutcomeOf(std::numeric_limits<double>::quiet_NaN(), 3));
  EXPECT_TRUE(target.IsValid()) << "an error without a size is a large one";
  EXPECT_GE(target.mean_error, 1e18);
  for (double TargetMoments::*const part : {&TargetMoments::count, &TargetMoments::m2,
                                            &TargetMoments::errors, &TargetMoments::mean_error}) {
    for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
      TargetMoments damaged = target;
      damaged.*part = wrong;
      EXPECT_FALSE(damaged.IsValid());
      Moments moments(1);
      moments.target = damaged;
      EXPECT_FALSE(moments.IsValid());
    }
  }
  for (const double votes : {1.1, -1.1, std::numeric_limits<double>::quiet_NaN()}) {
    TargetMoments damaged = target;
    damaged.range_votes = votes;
    EXPECT_FALSE(damaged.IsValid()) << "of one prediction";
  }
  for (const double least : {3.1, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    TargetMoments damaged = target;
    damaged.least = least;
    EXPECT_FALSE(damaged.IsValid());
  }
  target.mean = -1e21;
  EXPECT_FALSE(target.IsValid());
}

// Ratings are from 1 to 5.
TEST(TargetMoments, KeepEstimatesToTheRangeOfTheTargetsAsLongAsThatIsBetter) {
  TargetMoments ratings;
  for (const float rating : {1.0f, 5.0f, 4.0f}) ratings.Add(rating);
  EXPECT_EQ(ratings.Shown(5.4), 5.4) << "nothing is known yet";
  ratings.AddOutcome(ratings.OutcomeOf(3, 5));
  EXPECT_EQ(ratings.Shown(5.4), 5.4) << "within the range there is no vote";
  EXPECT_EQ(ratings.OutcomeOf(5.4, 5).vote, 1);
  ratings.AddOutcome(ratings.OutcomeOf(5.4, 5));
  EXPECT_EQ(ratings.Shown(5.4), 5);
  EXPECT_EQ(ratings.Shown(-7), 1);
  EXPECT_EQ(ratings.Shown(2.5), 2.5);
  EXPECT_TRUE(std::isnan(ratings.Shown(std::nan("")))) << "what is no number is none of the range";
  EXPECT_EQ(ratings.OutcomeOf(5.4, 4).error, 1) << "as it is shown";
}

TEST(TargetMoments, KeepNoEstimateBelowATrend) {
  TargetMoments trend;
  for (int i = 0; i < 100; ++i) {
    if (trend.known()) trend.AddOutcome(trend.OutcomeOf(i, static_cast<float>(i)));
    trend.Add(static_cast<float>(i));
  }
  EXPECT_EQ(trend.OutcomeOf(100, 100).vote, -1);
  EXPECT_EQ(trend.Shown(110), 110);
}

TEST(TargetMoments, ForgetWhatKeepingToTheRangeHasGainedBeforeATrend) {
  TargetMoments target;
  for (int i = 0; i < 100'000; ++i) {  // each fifth estimate is too large
    const float value = i % 5 == 0 ? 5.0f : 3.0f;
    if (target.known()) target.AddOutcome(target.OutcomeOf(i % 5 == 0 ? 5.5 : 3.0, value));
    target.Add(value);
  }
  EXPECT_EQ(target.Shown(9), 5);
  TargetMoments update;
  for (int i = 0; i < 1000; ++i) {
    const float value = 5.01f + 0.01f * static_cast<float>(i);
    update.AddOutcome(target.OutcomeOf(static_cast<double>(value), value));
    update.Add(value);
  }
  target.Merge(update);
  EXPECT_EQ(target.Shown(99), 99);
}

TEST(Scaler, StandardisesByThePopulationsDeviation) {
  const Scaler scaler(MomentsOf({2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}));  // mean 5, deviation 2
  EXPECT_FLOAT_EQ(scaler.Scale(0, 5.0), 0.0f);
  EXPECT_FLOAT_EQ(scaler.Scale(0, 9.0), 2.0f);
  EXPECT_FLOAT_EQ(scaler.Scale(0, 2.0), -1.5f);
}

TEST(Scaler, ClipsOutliers) {
  const Scaler scaler(MomentsOf({-1.0, 1.0}));
  EXPECT_EQ(scaler.Scale(0, 1e9), Scaler::kClip);
  EXPECT_EQ(scaler.Scale(0, -1e9), -Scaler::kClip);
  EXPECT_EQ(scaler.Scale(0, kInfinity), Scaler::kClip);
  EXPECT_EQ(scaler.Scale(0, -kInfinity), -Scaler::kClip);
}

TEST(Scaler, AConstantColumnIsZeroWhateverComes) {
  // 0.1 is not a sum of powers of two; merging it with itself must not make a deviation.
  Moments merged = MomentsOf(std::vector<double>(1000, 0.1));
  merged.Merge(MomentsOf(std::vector<double>(7, 0.1)));
  for (const Moments& moments : {merged, MomentsOf({12.0}), Moments(1)}) {
    const Scaler scaler(moments);
    for (double value : {0.0, 0.1, 5.0, -1e300, kInfinity, kMissing}) {
      EXPECT_EQ(scaler.Scale(0, value), 0.0f) << value;
    }
  }
}

TEST(Scaler, AColumnThatVariesByItsRoundingOnlyIsConstant) {
  for (const double value : {0.1, -1e9, 1e50}) {
    const Moments rounding = MomentsOf({value, std::nextafter(value, kInfinity)});
    EXPECT_GT(rounding.m2[0], 0);
    EXPECT_EQ(Scaler(rounding).Scale(0, 2 * value), 0.0f) << value;
    const Scaler scaler(MomentsOf({value, value * (1 + 1e-14)}));
    EXPECT_FLOAT_EQ(std::abs(scaler.Scale(0, value)), 1.0f) << value;
  }
}

TEST(Scaler, AMissingValueIsZero) {
  EXPECT_EQ(Scaler(MomentsOf({3.0, 9.0})).Scale(0, kMissing), 0.0f);
  EXPECT_EQ(Scaler::Identity(1).Scale(0, kMissing), 0.0f);
}

TEST(Scaler, IdentityKeepsValuesThatAFloatCanHold) {
  const Scaler scaler = Scaler::Identity(2);
  EXPECT_EQ(scaler.columns(), 2u);
  EXPECT_EQ(scaler.Scale(1, 1234.5), 1234.5f);
  EXPECT_EQ(scaler.Scale(1, -1e300), -std::numeric_limits<float>::max());
  EXPECT_EQ(scaler.Scale(1, kInfinity), std::numeric_limits<float>::max());
}

TEST(Scaler, ImpossibleMomentsMakeAConstantColumn) {
  for (double poison : {kMissing, kInfinity, -kInfinity}) {
    Moments moments = MomentsOf({1.0, 2.0});
    moments.mean[0] = poison;
    EXPECT_EQ(Scaler(moments).Scale(0, 1.0), 0.0f);
    moments = MomentsOf({1.0, 2.0});
    moments.m2[0] = poison;
    EXPECT_EQ(Scaler(moments).Scale(0, 1.0), 0.0f);
  }
}

TEST(Scaler, ARowAtOnceIsTheSameAsColumnByColumn) {
  std::mt19937 random(3);
  std::normal_distribution<double> value(0.0, 1e3);
  for (size_t columns = 0; columns < 40; ++columns) {
    Moments moments(columns);
    Row row;
    for (int i = 0; i < 10; ++i) {
      row.numeric.assign(columns, 0.0);
      for (double& each : row.numeric) each = value(random);
      moments.Add(row);
    }
    if (columns > 3) {
      row.numeric[1] = kMissing;
      row.numeric[2] = -kInfinity;
      row.numeric[3] = 1e300;
    }
    const Scaler scaler(moments);
    std::vector<float> features(columns);
    scaler.ScaleRow(row.numeric, features);
    for (size_t i = 0; i < columns; ++i) {
      EXPECT_EQ(features[i], scaler.Scale(i, row.numeric[i]));
    }
  }
}

}  // namespace
}  // namespace millrace
