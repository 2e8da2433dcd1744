#include "models/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

TEST(NaturalLog, IsThatOfLibmToTwelveDigits) {
  constexpr double kError = 2e-12;
  EXPECT_EQ(NaturalLog(1), 0);
  for (double x = 1e-300; x < 1e300; x *= 1.0037) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), kError * std::abs(std::log(x))) << x;
  }
  for (double x = 0.5; x < 2; x += 1e-4) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), kError * std::abs(std::log(x)) + 1e-16) << x;
  }
  for (const double x : {std::numeric_limits<double>::denorm_min(), 1e-310, 1 + 1e-9,
                         std::numeric_limits<double>::max()}) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), kError * std::abs(std::log(x))) << x;
  }
}

TEST(NaturalLog, HasNoNumberWhereThereIsNone) {
  EXPECT_EQ(NaturalLog(std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(NaturalLog(std::numeric_limits<double>::quiet_NaN())));
}

TEST(NaturalLogs, AreThoseThatAreTakenOneByOneToTheBit) {
  for (double x = std::numeric_limits<double>::min(); x < 1e300; x *= 1.37) {
    const EightDoubles several = {x, 1, x * 1.1, 0.5, x * 1e3, 0.75, x * 1.4142, 3};
    const EightDoubles logs = NaturalLogs(several);
    for (size_t i = 0; i < several.size(); ++i) EXPECT_EQ(logs[i], NaturalLog(several[i]));
  }
}

TEST(Power, IsThatOfLibm) {
  EXPECT_EQ(Power(0.5, 0), 1);
  EXPECT_EQ(Power(0.5, 1), 0.5);
  EXPECT_EQ(Power(-3, 5), -243);
  for (const uint64_t n : {7u, 100u, 2000u, 65'537u}) {
    const double right = std::pow(0.9995, static_cast<double>(n));
    EXPECT_NEAR(Power(0.9995, n), right, 1e-11 * right) << n;
  }
}

}  // namespace
}  // namespace millrace
