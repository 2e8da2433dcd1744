#include "producer/level_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <random>

namespace millrace {
namespace {

Row OfClass(uint64_t label) {
  Row row;
  row.label = static_cast<uint32_t>(label);
  return row;
}

Row OfNumber(double target) {
  Row row;
  row.target = static_cast<float>(target);
  return row;
}

// What is told of the rows 0 to 2,047; and that it is told with the 1,024th or never.
std::optional<double> Told(size_t classes, const std::function<Row(int)>& make) {
  LevelWatch watch(classes);
  std::optional<double> told;
  for (int i = 0; i < 2048; ++i) {
    const std::optional<double> now = watch.Observe(make(i));
    EXPECT_TRUE(!now || i == 1023) << i;
    if (now) told = now;
  }
  return told;
}

TEST(LevelWatch, TellsANumberWhoseLevelMoves) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise;
  double walk = 1e6;
  EXPECT_GT(Told(0, [&](int) { return OfNumber(walk += noise(random)); }), .9);
  EXPECT_GT(Told(0, [&](int i) { return OfNumber(20 * std::sin(i / 500.0) + noise(random)); }), .8);
  EXPECT_GT(Told(0, [&](int i) { return OfNumber(i); }), .9);
}

TEST(LevelWatch, TellsClassesThatComeInBlocks) {
  std::mt19937 random(4);
  EXPECT_GT(Told(2, [](int i) { return OfClass(i < 600 ? 0 : 1); }), .9);
  EXPECT_GT(Told(5, [](int i) { return OfClass(static_cast<uint64_t>(i / 100 % 5)); }), .7);
  // Nine of ten are of the class of the hour.
  EXPECT_GT(
      Told(2,
           [&](int i) {
             return OfClass(static_cast<uint64_t>(i / 250 % 2) ^ (random() % 10 == 0 ? 1 : 0));
           }),
      .5);
}

TEST(LevelWatch, TellsNothingWhereNeighboursAreHardlyMoreAlikeThanOthers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise;
    EXPECT_FALSE(Told(2, [&](int) { return OfClass(random() % 5 == 0 ? 1 : 0); }));
    EXPECT_FALSE(Told(20, [&](int) { return OfClass(random() % 20); }));
    EXPECT_FALSE(Told(0, [&](int) { return OfNumber(1e9 + 100 * noise(random)); }));
    // As the flights: on some days a third is late, on others a tenth.
    EXPECT_FALSE(Told(
        2, [&](int i) { return OfClass(random() % (i / 100 % 2 == 0 ? 3 : 10) == 0 ? 1 : 0); }));
  }
}

TEST(LevelWatch, TellsNothingOfAConstantAndOfFewRows) {
  EXPECT_FALSE(Told(0, [](int) { return OfNumber(7); }));
  EXPECT_FALSE(Told(3, [](int) { return OfClass(2); }));
  LevelWatch watch(0);
  for (int i = 0; i < 1023; ++i) EXPECT_FALSE(watch.Observe(OfNumber(i)));
}

}  // namespace
}  // namespace millrace
