#include "models/portable_math.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace millrace {

// log(m 2^n) = n log 2 + 2 artanh((m - 1) / (m + 1)), by the series of artanh: with m within a
// factor of root 2 of 1 a term is at most .03 of the one before it.
double NaturalLog(double x) {
  MILLRACE_CHECK(!(x <= 0));
  if (!(x <= std::numeric_limits<double>::max())) return x;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact, and so is what follows
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  constexpr int kLastTerm = 13;
  double sum = 1.0 / kLastTerm;
  for (int k = kLastTerm - 2; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * std::numbers::ln2 + 2 * s * sum;
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
