#include "models/drift_detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace millrace {
namespace {

// Rows whose losses are exponential, as log losses nearly are, sent in updates.
class Stream {
 public:
  explicit Stream(uint32_t seed, uint64_t update_rows = 32)
      : random_(seed), update_rows_(update_rows) {}

  // Whether there was a drift.
  bool Send(double mean_loss) {
    std::exponential_distribution<double> loss(1 / mean_loss);
    double sum = 0;
    for (uint64_t i = 0; i < update_rows_; ++i) sum += loss(random_);
    rows_ += update_rows_;
    return detector_.Add(update_rows_, sum, rows_, ++clock_);
  }
  // How often there was one.
  int SendRows(uint64_t rows, double mean_loss) {
    int drifts = 0;
    for (const uint64_t end = rows_ + rows; rows_ < end;) drifts += Send(mean_loss) ? 1 : 0;
    return drifts;
  }

  const DriftDetector& detector() const { return detector_; }
  uint64_t rows() const { return rows_; }
  uint64_t clock() const { return clock_; }

 private:
  std::mt19937 random_;
  const uint64_t update_rows_;
  DriftDetector detector_{DriftDetector::Pace()};
  uint64_t rows_ = 0;
  uint64_t clock_ = 0;
};

TEST(DriftDetector, FindsALossThatRisesSoonAndSaysWhereItBegan) {
  for (const uint64_t update_rows : {1, 32, 256}) {
    Stream stream(1, update_rows);
    ASSERT_EQ(stream.SendRows(20'000, 0.4), 0);
    const uint64_t change = stream.rows();
    while (stream.rows() < change + 2000 && !stream.Send(0.8)) continue;
    const DriftDetector::Drift& drift = stream.detector().last();
    EXPECT_EQ(drift.count, 1u) << update_rows;
    EXPECT_EQ(drift.found_at, stream.rows());
    EXPECT_EQ(drift.clock, stream.clock());
    EXPECT_LE(drift.found_at, change + 600);
    EXPECT_NEAR(static_cast<double>(drift.row), static_cast<double>(change), 512);
    EXPECT_NEAR(drift.before, 0.4, 0.06);
    EXPECT_NEAR(drift.after, 0.8, 0.25);
  }
}

TEST(DriftDetector, FindsNothingInHundredsOfThousandsOfRowsThatStayAsTheyAre) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Stream stream(seed);
    EXPECT_EQ(stream.SendRows(200'000, 0.05 + 0.1 * seed), 0) << seed;
  }
}

TEST(DriftDetector, FindsNothingInALossThatFalls) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Stream stream(seed);
    int drifts = 0;
    while (stream.rows() < 100'000) {
      drifts += stream.Send(0.2 + 0.6 / (1 + static_cast<double>(stream.rows()) / 1000)) ? 1 : 0;
    }
    drifts += stream.SendRows(20'000, 0.1);  // at once
    EXPECT_EQ(drifts, 0) << seed;
  }
}

TEST(DriftDetector, FindsASecondRiseAfterTheFirst) {
  Stream stream(2);
  EXPECT_EQ(stream.SendRows(10'000, 0.2), 0);
  EXPECT_EQ(stream.SendRows(10'000, 0.5), 1) << "what is higher from there on is no other change";
  EXPECT_EQ(stream.SendRows(10'000, 1.2), 1);
  EXPECT_EQ(stream.detector().last().count, 2u);
  EXPECT_NEAR(stream.detector().last().before, 0.5, 0.1);
}

TEST(DriftDetector, OneBlockAfterQuietOnesIsNoDriftHoweverBadItIs) {
  DriftDetector detector({.block_rows = 1, .first_blocks = 20});
  uint64_t rows = 0;
  const auto send = [&](double loss) {
    ++rows;
    return detector.Add(1, loss, rows, 0);
  };
  const auto quiet = [&] {
    int drifts = 0;
    for (int i = 0; i < 100; ++i) drifts += send(i % 2 == 0 ? 0.3 : 0.4) ? 1 : 0;
    return drifts;
  };
  EXPECT_EQ(quiet(), 0);
  EXPECT_FALSE(send(1e9));
  EXPECT_EQ(quiet(), 0);
  EXPECT_FALSE(send(1e9));
  EXPECT_TRUE(send(1e9)) << "two are";
}

TEST(DriftDetector, ABlockThatIsNotFullWaitsForMoreRows) {
  DriftDetector detector{DriftDetector::Pace()};
  detector.Add(49, 9.8, 49, 0);
  EXPECT_EQ(detector.state().blocks, 0u);
  EXPECT_EQ(detector.state().open_rows, 49u);
  detector.Add(3, 0.6, 52, 1);
  EXPECT_EQ(detector.state().blocks, 1u);
  EXPECT_EQ(detector.state().open_rows, 0u);
  EXPECT_NEAR(detector.state().mean, 0.2, 1e-12);
}

// By hand: after two blocks of loss 1 and 3 mean 2 and variance 1; a block of 4 is 2 deviations
// away, of which 1 is beyond the slack.
TEST(DriftDetector, SumsDeviationsBeyondTheSlack) {
  DriftDetector detector({.block_rows = 1, .first_blocks = 2});
  detector.Add(1, 1, 1, 0);
  detector.Add(1, 3, 2, 0);
  EXPECT_NEAR(detector.state().mean, 2, 1e-12);
  EXPECT_NEAR(detector.state().variance, 1, 1e-12);
  detector.Add(1, 4, 3, 0);
  EXPECT_NEAR(detector.state().excess, 1, 1e-9);
  EXPECT_EQ(detector.state().excess_begin, 2u);
  EXPECT_NEAR(detector.state().excess_from, 2, 1e-12);
  EXPECT_NEAR(detector.state().mean, 2 + 2.0 / 3, 1e-9);
  EXPECT_NEAR(detector.state().variance, 2.0 / 3 * (1 + 4.0 / 3), 1e-9);
}

TEST(DriftDetector, WhatIsNoLossLeavesItWhatItCanSave) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1e300, 1e300, infinity, -infinity, std::nan("")}) {
    Stream stream(4);
    stream.SendRows(5'000, 0.3);
    DriftDetector detector = stream.detector();
    for (uint64_t i = 1; i <= 10; ++i) detector.Add(20, bad, stream.rows() + 20 * i, 0);
    DriftDetector other{DriftDetector::Pace()};
    EXPECT_TRUE(other.Restore(detector.state(), stream.rows() + 200)) << bad;
    EXPECT_EQ(other.state(), detector.state());
  }
}

TEST(DriftDetector, RestoresOnlyWhatRowsCanHaveLedTo) {
  Stream stream(5);
  stream.SendRows(10'000, 0.3);
  stream.SendRows(1'000, 3);
  const DriftDetector::State good = stream.detector().state();
  ASSERT_EQ(good.last.count, 1u);
  const auto is_taken = [&](auto change) {
    DriftDetector::State state = good;
    change(state);
    DriftDetector detector{DriftDetector::Pace()};
    return detector.Restore(state, stream.rows());
  };
  using State = DriftDetector::State;
  EXPECT_TRUE(is_taken([](State&) {}));
  EXPECT_FALSE(is_taken([](State& s) { s.mean = std::nan(""); }));
  EXPECT_FALSE(is_taken([](State& s) { s.mean = 11; }));
  EXPECT_FALSE(is_taken([](State& s) { s.variance = -1; }));
  EXPECT_FALSE(is_taken([](State& s) { s.excess = 6.5; }));
  EXPECT_FALSE(is_taken([](State& s) { s.blocks = 1'000'000; }));
  EXPECT_FALSE(is_taken([](State& s) { s.excess_begin = 1'000'000; }));
  EXPECT_FALSE(is_taken([](State& s) { s.excess_rows = 1'000'000; }));
  EXPECT_FALSE(is_taken([](State& s) { s.excess_loss = -1; }));
  EXPECT_FALSE(is_taken([](State& s) { s.excess_from = -1; }));
  EXPECT_FALSE(is_taken([](State& s) { s.open_rows = 50; }));
  EXPECT_FALSE(is_taken([](State& s) { s.open_loss = std::nan(""); }));
  EXPECT_FALSE(is_taken([](State& s) { s.last.row = s.last.found_at + 1; }));
  EXPECT_FALSE(is_taken([](State& s) { s.last.found_at = 1'000'000; }));
  EXPECT_FALSE(is_taken([](State& s) { s.last.count = 1'000'000; }));
  EXPECT_FALSE(is_taken([](State& s) { s.last.after = std::nan(""); }));
}

TEST(DriftLoss, IsTheLogLossOfClassesAndARegressionsErrorInDeviationsOfItsTargets) {
  EvaluationSums sums;
  sums.AddTarget(1, 2);
  sums.AddTarget(5, 4);
  EvaluationSums all = sums;
  all.AddTarget(3, 3);
  all.AddUnpredicted();
  EXPECT_NEAR(DriftLoss(sums, all, 0), 2 / std::sqrt(8.0 / 3), 1e-9);
  EvaluationSums equal;
  equal.AddTarget(3, 1);
  EXPECT_EQ(DriftLoss(equal, equal, 0), 0) << "nothing to measure by";
  sums.log_loss = 1.5;
  EXPECT_EQ(DriftLoss(sums, all, 2), 1.5);
}

}  // namespace
}  // namespace millrace
