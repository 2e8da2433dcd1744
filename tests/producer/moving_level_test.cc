#include "producer/moving_level.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace millrace {
namespace {

class MovingLevelTest : public testing::Test {
 protected:
  std::optional<double> OfNumbers(const std::function<double(int)>& make, int rows = 20'000) {
    return Told(make, rows, false);
  }
  std::optional<double> OfClasses(const std::function<double(int)>& make, int rows = 20'000) {
    return Told(make, rows, true);
  }
  double Noise() { return noise_(random_); }
  // A walk that forgets: of levels that last about 1 / (1 - memory) rows.
  double Walk(double memory) { return walk_ = memory * walk_ + Noise(); }

  std::mt19937 random_{3};

 private:
  static std::optional<double> Told(const std::function<double(int)>& make, int rows,
                                    bool are_classes) {
    std::vector<float> labels;
    for (int i = 0; i < rows; ++i) labels.push_back(static_cast<float>(make(i)));
    return MovingLevel(labels, are_classes);
  }

  std::normal_distribution<double> noise_;
  double walk_ = 0;
};

TEST_F(MovingLevelTest, IsToldOfNumbers) {
  EXPECT_GT(OfNumbers([&](int) { return 1e6 + Walk(1); }), .7);
  EXPECT_GT(OfNumbers([&](int) { return Walk(.99); }), .3);
  EXPECT_GT(OfNumbers([&](int i) { return 20 * std::sin(i / 500.0) + Noise(); }), .8);
  EXPECT_GT(OfNumbers([](int i) { return i; }), .9);
  EXPECT_GT(OfNumbers([&](int i) { return i / 1000 * 7919 % 10 + Noise(); }), .5) << "jumps";
  // By a third of the noise's variance in 512 rows.
  EXPECT_GT(OfNumbers([&](int) { return .02 * Walk(1) + .5 * Noise(); }), .15);
}

TEST_F(MovingLevelTest, IsToldOfClasses) {
  EXPECT_GT(OfClasses([](int i) { return i / 5000; }), .8) << "sorted";
  EXPECT_GT(OfClasses([](int i) { return i / 200 % 5; }), .4);
  // Nine of ten are of the class of the hour.
  EXPECT_GT(OfClasses([&](int i) { return (i / 750 % 2) ^ (random_() % 10 == 0 ? 1 : 0); }), .3);
}

TEST_F(MovingLevelTest, IsNotToldWhereTheOrderTellsNothing) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    random_.seed(seed);
    EXPECT_FALSE(OfClasses([&](int) { return random_() % 5 == 0 ? 1 : 0; }));
    EXPECT_FALSE(OfClasses([&](int) { return random_() % 20; }));
    EXPECT_FALSE(OfNumbers([&](int) { return 1e9 + 100 * Noise(); }));
    EXPECT_FALSE(OfNumbers([&](int) { return 1 / Noise(); })) << "with outliers";
  }
  EXPECT_FALSE(OfNumbers([](int i) { return i == 20 ? 1e30 : i % 7; }));
}

TEST_F(MovingLevelTest, IsNotToldOfLevelsThatAWorkerFollowsInItsOwnTurn) {
  EXPECT_FALSE(OfNumbers([&](int) { return Walk(.95); }));
  EXPECT_FALSE(OfNumbers([&](int) { return Walk(.9); }));
  for (int period = 2; period <= 40; ++period) {
    EXPECT_FALSE(OfNumbers([&](int i) { return i % period; })) << period;
    EXPECT_FALSE(OfClasses([&](int i) { return i % period < period / 2 ? 0 : 1; })) << period;
  }
  // As the flights: on some days a third is late, on others a tenth.
  EXPECT_FALSE(OfClasses([&](int i) { return random_() % (i / 900 % 2 == 0 ? 3 : 10) == 0; }));
}

TEST_F(MovingLevelTest, IsNotToldOfAConstantAndOfFewRows) {
  EXPECT_FALSE(OfNumbers([](int) { return 7; }));
  EXPECT_FALSE(OfClasses([](int) { return 2; }));
  EXPECT_FALSE(OfNumbers([](int i) { return i; }, 0));
  EXPECT_FALSE(OfNumbers([](int i) { return i; }, 767));
  EXPECT_GT(OfNumbers([](int i) { return i; }, 768), .9);
}

}  // namespace
}  // namespace millrace
