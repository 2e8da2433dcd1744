#include "metrics/recent_speed.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// A job of which a sample comes four times a second.
class Steps {
 public:
  void Sample(uint64_t steps) {
    now_ms_ += 250;
    steps_ += steps;
    const int64_t silent_ms = sampled_ms_ == 0 ? 0 : now_ms_ - sampled_ms_;
    sampled_ms_ = now_ms_;
    speed_.Add({.timestamp_ms = now_ms_, .steps = steps_, .rows = 100 * steps_}, silent_ms);
  }
  void Go(int quarters, uint64_t steps) {
    for (int i = 0; i < quarters; ++i) Sample(steps);
  }
  void Silence(int64_t ms) { now_ms_ += ms; }
  // Empty: not known.
  std::optional<double> rows_per_second() const {
    const auto span = speed_.span();
    if (!span) return std::nullopt;
    return static_cast<double>(span->end.rows - span->begin.rows) / span->seconds;
  }
  const RecentSpeed& speed() const { return speed_; }

 private:
  RecentSpeed speed_;
  int64_t now_ms_ = 1'000;
  int64_t sampled_ms_ = 0;
  uint64_t steps_ = 0;
};

TEST(RecentSpeed, AfterASilenceIsThatOfTheTimeSince) {
  Steps job;
  job.Go(20, 1);
  EXPECT_EQ(job.rows_per_second(), 400);
  job.Silence(3'000);
  job.Sample(0);  // the program is back
  EXPECT_EQ(job.rows_per_second(), std::nullopt);
  job.Go(4, 1);
  EXPECT_EQ(job.rows_per_second(), std::nullopt) << "less than a second since the first step";
  job.Sample(1);
  EXPECT_EQ(job.rows_per_second(), 400);
  job.Go(40, 2);
  EXPECT_EQ(job.rows_per_second(), 800);
}

TEST(RecentSpeed, WhatStoodStillForLongIsNotCountedEither) {
  Steps job;
  job.Go(20, 1);
  job.Go(21, 0);  // its samples come
  EXPECT_TRUE(job.speed().stands_still());
  job.Go(1, 9);  // what waited is done at once
  EXPECT_FALSE(job.speed().stands_still());
  EXPECT_EQ(job.rows_per_second(), std::nullopt);
  job.Go(4, 1);
  EXPECT_EQ(job.rows_per_second(), 400);
}

TEST(RecentSpeed, IsUnknownAfterAnOutageUntilThereIsAStep) {
  Steps job;
  job.Go(20, 1);
  job.Silence(60'000);
  job.Go(1, 1);
  job.Go(12, 0);
  EXPECT_EQ(job.rows_per_second(), std::nullopt);
  job.Go(1, 26);
  EXPECT_EQ(job.rows_per_second(), 800);
}

TEST(RecentSpeed, ADelayThatStepsHaveUsuallyIsNoOutage) {
  Steps job;
  for (int i = 0; i < 4; ++i) {  // a step takes 10 s
    job.Go(39, 0);
    job.Go(1, 1);
  }
  EXPECT_TRUE(job.rows_per_second());
  job.Go(100, 0);
  EXPECT_FALSE(job.speed().stands_still());
  EXPECT_TRUE(job.rows_per_second()) << "25 s are no outage where a step takes 10";
}

TEST(RecentSpeed, AnOutageIsNoUsualDelay) {
  Steps job;
  job.Go(20, 1);
  for (int i = 0; i < 2; ++i) {
    job.Go(21, 0);
    EXPECT_TRUE(job.speed().stands_still()) << i;
    job.Go(2, 1);
  }
}

TEST(RecentSpeed, ALessThanUsualPauseCounts) {
  Steps job;
  job.Go(20, 1);
  job.Go(8, 0);
  job.Go(8, 1);
  EXPECT_EQ(job.rows_per_second(), 200) << "over 4 s, of which it stood still for 2";
}

TEST(RecentSpeed, KnowsNoOutageBeforeItKnowsHowLongAStepTakes) {
  Steps job;
  job.Sample(0);
  job.Silence(30'000);
  job.Sample(1);
  EXPECT_FALSE(job.speed().stands_still());
  job.Sample(1);
  EXPECT_TRUE(job.rows_per_second());
}

}  // namespace
}  // namespace millrace
