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
  std::optional<double> OfNumbers(const std::function<double(int)>& make, int rows = 8'000) {
    return Told(make, rows, false);
  }
  std::optional<double> OfClasses(const std::function<double(int)>& make, int rows = 8'000) {
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
    return MovingLevel({&labels, 1}, are_classes);
  }

  std::normal_distribution<double> noise_;
  double walk_ = 0;
};

TEST_F(MovingLevelTest, IsToldOfNumbers) {
  EXPECT_GT(OfNumbers([&](int) { return 1e6 + Walk(1); }), .7);
  EXPECT_GT(OfNumbers([&](int) { return Walk(.99); }), .6);
  EXPECT_GT(OfNumbers([&](int) { return Walk(.9); }), .2) << "of some ten rows";
  EXPECT_GT(OfNumbers([&](int i) { return 20 * std::sin(i / 500.0) + Noise(); }), .8);
  EXPECT_GT(OfNumbers([](int i) { return i; }), .9);
  EXPECT_GT(OfNumbers([&](int i) { return i / 1000 * 7919 % 10 + Noise(); }), .5) << "jumps";
  // By a third of the noise's variance in 512 rows.
  EXPECT_GT(OfNumbers([&](int) { return .02 * Walk(1) + .5 * Noise(); }), .15);
}

TEST_F(MovingLevelTest, IsToldOfAnyPeriodThatOutlastsATurn) {
  for (int period = 130; period <= 4000; period += 90) {
    const auto wave = [&](int i) { return 6.283 * i / period; };
    EXPECT_TRUE(OfNumbers([&](int i) { return std::sin(wave(i)) + .2 * Noise(); }, 5000)) << period;
    EXPECT_TRUE(OfClasses([&](int i) { return std::sin(wave(i)) > 0; }, 5000)) << period;
  }
}

TEST_F(MovingLevelTest, OfStreamsSideBySideIsThatOfEach) {
  std::vector<std::vector<float>> streams(4);
  for (int i = 0; i < 5000; ++i) {
    for (size_t k = 0; k < 4; ++k) {
      streams[k].push_back(static_cast<float>(10. * static_cast<double>(k) + Noise()));
    }
  }
  EXPECT_FALSE(MovingLevel(streams, false)) << "each stays at its level";
  std::vector<float> one;
  for (const auto& stream : streams) one.insert(one.end(), stream.begin(), stream.end());
  EXPECT_TRUE(MovingLevel({&one, 1}, false));
  for (size_t i = 0; i < 5000; ++i) streams[2][i] += static_cast<float>(i) / 50;
  EXPECT_TRUE(MovingLevel(streams, false));
}

TEST_F(MovingLevelTest, IsToldOfClasses) {
  EXPECT_GT(OfClasses([](int i) { return i / 5000; }), .8) << "sorted";
  EXPECT_GT(OfClasses([](int i) { return i / 200 % 5; }), .4);
  // Nine of ten are of the class of the hour.
  EXPECT_GT(OfClasses([&](int i) { return (i / 750 % 2) ^ (random_() % 10 == 0 ? 1 : 0); }), .3);
}

TEST_F(MovingLevelTest, IsNotToldWhereTheOrderTellsNothing) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    random_.seed(seed);
    EXPECT_FALSE(OfClasses([&](int) { return random_() % 5 == 0 ? 1 : 0; }));
    EXPECT_FALSE(OfClasses([&](int) { return random_() % 20; }));
    EXPECT_FALSE(OfNumbers([&](int) { return 1e9 + 100 * Noise(); }));
    EXPECT_FALSE(OfNumbers([&](int) { return 1 / Noise(); })) << "with outliers";
    for (const int rows : {768, 1000, 2000}) {
      EXPECT_FALSE(OfNumbers([&](int) { return Noise(); }, rows));
      EXPECT_FALSE(OfClasses([&](int) { return random_() % 2; }, rows));
      EXPECT_FALSE(OfClasses([&](int) { return random_() % 5 == 0; }, rows));
      EXPECT_FALSE(OfClasses([&](int) { return random_() % 100 == 0; }, rows)) << "a rare class";
    }
  }
  EXPECT_FALSE(OfClasses([](int i) { return i / 100 == 50; })) << "a hundred, once";
  EXPECT_FALSE(OfNumbers([](int i) { return i == 20 ? 1e30 : i % 7; }));
}

TEST_F(MovingLevelTest, IsNotToldOfLevelsThatAWorkerFollowsInItsOwnTurn) {
  EXPECT_FALSE(OfNumbers([&](int) { return Walk(.7); }));
  for (int period = 2; period <= 40; ++period) {
    EXPECT_FALSE(OfNumbers([&](int i) { return i % period; })) << period;
    EXPECT_FALSE(OfClasses([&](int i) { return i % period < period / 2 ? 0 : 1; })) << period;
  }
  // As the flights: on some days a fifth is late, on others a tenth.
  EXPECT_FALSE(OfClasses([&](int i) { return random_() % (i / 900 % 2 == 0 ? 5 : 10) == 0; }));
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
