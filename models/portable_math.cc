#include "models/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace millrace {
namespace {

// x = m 2^exponent, m in [1/2, 1); `exponent` may be below 1 and is a whole number.
//
// log(m 2^n) = n log 2 + 2 artanh((m - 1) / (m + 1)), by the series of artanh: with m within a
// factor of root 2 of 1 a term is at most .03 of the one before it.
inline double LogOfParts(double m, double exponent) {
  const bool small = m < std::numbers::sqrt2 / 2;
  m = small ? m * 2 : m;  // exact
  exponent = small ? exponent - 1 : exponent;
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  constexpr int kLastTerm = 13;
  double sum = 1.0 / kLastTerm;
  for (int k = kLastTerm - 2; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

}  // namespace

double NaturalLog(double x) {
  MILLRACE_CHECK(!(x <= 0));
  if (!(x <= std::numeric_limits<double>::max())) return x;
  int exponent = 0;
  const double m = std::frexp(x, &exponent);  // exact
  return LogOfParts(m, exponent);
}

// What frexp does, by the bits of IEEE 754's doubles, which vector instructions can. (They cannot
// convert integers of 64 bits everywhere: so the exponent becomes the lower bits of 2^52.)
EightDoubles NaturalLogs(const EightDoubles& x) {
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  constexpr uint64_t kHalf = uint64_t{1022} << 52;          // the exponent of 1/2
  constexpr uint64_t kTwoTo52 = uint64_t{1023 + 52} << 52;  // 2^52
  EightDoubles logs;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<uint64_t>(x[i]);
    const auto m = std::bit_cast<double>((bits & kMantissa) | kHalf);
    const auto exponent = std::bit_cast<double>((bits >> 52) | kTwoTo52) - (0x1p52 + 1022);
    logs[i] = LogOfParts(m, exponent);
  }
  return logs;
}

double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace millrace
