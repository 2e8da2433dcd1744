#include "producer/outlier_watch.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace millrace {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

Row NumericRow(double a, double b) { return {0, {a, b}, {}, {}}; }

// Rows of 0 to 9 in column 0, and of 5 in column 1.
OutlierWatch After(uint64_t rows) {
  OutlierWatch watch(2);
  for (uint64_t i = 0; i < rows; ++i) {
    EXPECT_FALSE(watch.Observe(NumericRow(static_cast<double>(i % 10), 5)));
  }
  return watch;
}

TEST(OutlierWatch, TellsAValueFarBeyondAllBefore) {
  for (const double far : {9'010.0, -9'001.0, 1e300, std::numeric_limits<double>::max()}) {
    OutlierWatch watch = After(1'000);
    const std::optional<OutlierWatch::Outlier> found = watch.Observe(NumericRow(far, 5));
    ASSERT_TRUE(found) << far;
    EXPECT_EQ(found->column, 0u);
    EXPECT_EQ(found->value, far);
    EXPECT_EQ(found->least, 0);
    EXPECT_EQ(found->most, 9);
    EXPECT_FALSE(watch.Observe(NumericRow(far * 1e-3, 5)));
  }
  EXPECT_FALSE(After(1'000).Observe(NumericRow(9'009, 5)));
  EXPECT_FALSE(After(1'000).Observe(NumericRow(-9'000, 5)));
}

TEST(OutlierWatch, TellsEachColumnOnce) {
  OutlierWatch watch = After(1'000);
  EXPECT_TRUE(watch.Observe(NumericRow(1e6, 5)));
  EXPECT_FALSE(watch.Observe(NumericRow(1e12, 5)));
}

TEST(OutlierWatch, KnowsNothingOfAColumnWithFewValuesOrOnlyOne) {
  EXPECT_FALSE(After(999).Observe(NumericRow(1e6, 5)));
  EXPECT_FALSE(After(1'000).Observe(NumericRow(0, 1e6))) << "it was constant";
}

TEST(OutlierWatch, AColumnThatGrowsSteadilyHasNone) {
  OutlierWatch watch(2);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_FALSE(watch.Observe(NumericRow(1.5e9 + i, 1e-3 * i * i)));
  }
}

TEST(OutlierWatch, MissingValuesAreNone) {
  OutlierWatch watch(2);
  for (int i = 0; i < 4'995; ++i) {
    ASSERT_FALSE(watch.Observe(NumericRow(kMissing, i % 5 == 0 ? i % 2 : kMissing)));
  }
  EXPECT_FALSE(watch.Observe(NumericRow(7, 1e6))) << "999 values tell too little of column 1";
  EXPECT_EQ(After(1'000).Observe(NumericRow(kMissing, 5)), std::nullopt);
}

}  // namespace
}  // namespace millrace
